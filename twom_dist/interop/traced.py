"""Lazy arrays of autoray: it traces with them what it is to compile."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any


def compute_or_trace(
    function: Callable[..., Any], options: tuple[Any, ...], name: str, *operands: Any
) -> Any:
    """Call a contraction; for lazy arrays return one that will call it.

    `options` come before the operands, and the shape of the result does not depend on
    them; autoray's function of this `name` knows it.
    """
    lazy = sys.modules.get("autoray.lazy")
    if lazy is None or not any(isinstance(x, lazy.LazyArray) for x in operands):
        return function(*options, *operands)
    # What autoray shares, since it is there twice, is shared here, too.
    share = lazy.core.lazy_cache(f"twom_dist.{name}")
    return share(_replace)(getattr(lazy, name)(*operands), function, *options)


def _replace(native: Any, function: Callable[..., Any], *options: Any) -> Any:
    """Return a lazy array that calls another function for the same result."""
    ours = partial(function, *options)
    return native.to(ours, native.args, shape=native.shape, deps=native.deps)
