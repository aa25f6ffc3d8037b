"""Contractions beside their computation: their calls recorded, or intercepted.

For plans and explanations a contraction runs as far as its products, whose calls are
recorded. While a block of `td.use` is open, all contractions are intercepted.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from ..errors import PlanError
from ..moduli.accuracy import AUTO_METHOD
from ..problem.arguments import check_arguments
from ..problem.call import Call
from ..problem.dtypes import letter_of
from ..problem.options import show_options
from ..typing import as_integer

P = ParamSpec("P")
R = TypeVar("R")

_calls: ContextVar[list[Call] | None] = ContextVar("twom-dist-calls", default=None)
current = _calls.get

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


class _Recorded(np.ndarray[Any, Any]):
    """An array for which no contraction takes a short cut."""


def contraction(function: Callable[P, R]) -> Callable[P, R]:
    """Make a public contraction, which plans and explanations take as a routine."""
    show_options(function, method=AUTO_METHOD)

    @wraps(function)
    def ask(*args: Any, **options: Any) -> Call:
        out = options.pop("out", None)
        operands, letter, shapes = _outline(function.__name__, args)
        calls: list[Call] = []
        token = _calls.set(calls)
        try:
            function(*operands, **options)
        finally:
            _calls.reset(token)
        call = _take_one(function.__name__, calls)
        if shapes:
            A, B, diag = (
                getattr(x, "shape", None) for x in (call.A, call.B, call.diag)
            )
            call = call._replace(A=A, B=B, diag=diag)
        return call._replace(out=out, terms=call.terms._replace(letter=letter))

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

    made: Any = called
    made.ask = ask
    return cast(Callable[P, R], made)


def _outline(name: str, given: Sequence[Any]) -> tuple[list[Any], str | None, bool]:
    """Replace shapes by lazy zeros.

    Returns the letter of the dtype of arrays beside shapes, and whether there are any.
    """
    args = [*given]
    places = range(min(2, len(args)))
    if name == "einsum" and args:
        letters = isinstance(args[0], str)
        places = range(1, len(args)) if letters else range(0, len(args) // 2 * 2, 2)
    shapes = {i: args[i] for i in places if _is_shape(args[i])}
    for i in places:
        if type(args[i]) is np.ndarray:
            args[i] = args[i].view(_Recorded)
    if not shapes:
        return args, None, False
    from dask.array import zeros

    dtypes = [args[i].dtype for i in places if hasattr(args[i], "dtype")]
    dtype = np.result_type(*dtypes) if dtypes else np.dtype("complex128")
    for i, shape in shapes.items():
        # By names of their own, since operands of one name are one.
        args[i] = zeros(shape, dtype=dtype, chunks=-1, name=f"operand-{i}")
    return args, letter_of(dtype) if dtypes else None, True


def _is_shape(x: Any) -> bool:
    return isinstance(x, tuple) and all(as_integer(size) is not None for size in x)


def _take_one(name: str, calls: list[Call]) -> Call:
    if len(calls) == 1:
        return calls[0]
    if not calls:
        problem = f"{name} sums no products of these operands"
        raise PlanError(problem, "Nothing is multiplied through int8", "no-product")
    raise PlanError(
        f"{name} of these operands makes {len(calls)} products",
        "Ask for one of them, such as td.gemm with the shapes (m, k) and (k, n)",
        "products",
    )
