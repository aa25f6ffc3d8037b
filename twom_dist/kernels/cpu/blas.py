"""BLAS on one thread, called by each of the threads of a product."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_one = threading.Lock()


@cache
def _controller() -> Any:
    """Find the libraries, which takes a millisecond."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def single_threaded() -> Iterator[None]:
    """Have the BLAS take no threads of its own, in all of the process.

    Beside ours they made a product of 1024 take twice as long (2 cores). Whoever begins
    first takes them away, and gives them back: no other thread could.
    """
    if not _one.acquire(blocking=False):
        yield
        return
    try:
        with _controller().limit(limits=1):
            yield
    finally:
        _one.release()
