"""Say so when a kernel has to be compiled: a time that a user would wonder about."""

import logging
from functools import cache
from typing import Any

from numba.core import event

_PACKAGE = __package__


class _CompileListener(event.Listener):
    """Log once, when the first kernel of ours that no cache holds is compiled."""

    told = False

    def on_start(self, event: Any) -> None:
        """Recognise our kernels by their module."""
        function = event.data["dispatcher"].py_func
        if not self.told and function.__module__.startswith(_PACKAGE):
            self.told = True
            logging.getLogger("twom_dist").warning(
                "twom_dist compiles CPU kernels for this machine: up to a minute, once "
                "for each kind and dtype of product (then they are cached on disk)"
            )

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


@cache
def announce_compilation() -> None:
    """Install the listener; cached kernels never reach it."""
    event.register("numba:compile", _CompileListener())
