"""Lazy arrays of autoray: it traces with them what it is to compile."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any


def compute_or_trace(
    function: Callable[..., Any], asked: tuple[Any, ...], name: str, *given: Any
) -> Any:
    """Call a contraction; for lazy arrays return one that will call it.

    Parameters
    ----------
    function : callable
        Takes what is asked, and then what is given.
    asked : tuple
        All that the shape of the result does not depend on.
    name : str
        The function of autoray's that knows the shape.
    *given : array or otherwise
        Operands, and what else that function takes.
    """
    lazy = sys.modules.get("autoray.lazy")
    if lazy is None or not any(isinstance(x, lazy.LazyArray) for x in given):
        return function(*asked, *given)
    # What autoray shares, since it is there twice, is shared here, too.
    share = lazy.core.lazy_cache(f"twom_dist.{name}")
    return share(_replace)(getattr(lazy, name)(*given), function, *asked)


def _replace(native: Any, function: Callable[..., Any], *asked: Any) -> Any:
    """Return a lazy array that calls another function for the same result."""
    ours = partial(function, *asked)
    return native.to(ours, native.args, shape=native.shape, deps=native.deps)
