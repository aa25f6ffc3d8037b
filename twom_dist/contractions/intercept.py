"""Contractions as public functions, which blocks of `td.use` may intercept."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
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
