"""Contractions as public functions, which `td.use` and autoray's tracing intercept."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, cast

from ..moduli.accuracy import AUTO_METHOD
from ..problem.arguments import check_arguments
from ..problem.options import show_options

P = ParamSpec("P")
R = TypeVar("R")

# Calls a contraction, given it with its arguments, and counts it.
Interceptor = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_interceptors: list[Interceptor] = []


@contextmanager
def intercept(interceptor: Interceptor) -> Iterator[None]:
    """Have all contractions of this process called by an interceptor.

    There is one, who knows which calls are its own.
    """
    _interceptors.append(interceptor)
    try:
        yield
    finally:
        _interceptors.pop()


def contraction(function: Callable[P, R]) -> Callable[P, R]:
    """Make a public contraction of a function."""
    show_options(function, method=AUTO_METHOD)

    # `problem.arguments.checked`, but for the interceptor: another call would be felt.
    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        try:
            if _interceptors:
                # A copy, since another thread may end the last block now.
                for interceptor in _interceptors[:1]:
                    return interceptor(function, args, options)
            return function(*args, **options)
        except TypeError:
            check_arguments(function, args, options)
            raise

    return cast(Callable[P, R], called)


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
