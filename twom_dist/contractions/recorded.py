"""The calls that contractions make, for plans and explanations, and for blocks.

A contraction that is asked runs as far as its products, and there records the calls.
While a block of `td.use` is open, all contractions are intercepted.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
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
from .arrays import as_operands

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class Recording:
    """Products that a contraction has met.

    Attributes
    ----------
    shapes : bool
        Whether the operands stand for their shapes alone.
    calls : list of Call
    sizes : list of (m, n, k)
        Of these calls.
    """

    shapes: bool
    calls: list[Call] = field(default_factory=list)
    sizes: list[tuple[int, int, int]] = field(default_factory=list)


_recording: ContextVar[Recording | None] = ContextVar(
    "twom-dist-recording", default=None
)
current = _recording.get


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


class _Asked(np.ndarray[Any, Any]):
    """An array for which no contraction takes a short cut."""


def contraction(function: Callable[P, R]) -> Callable[P, R]:
    """Make a public contraction, which plans and explanations take as a routine."""
    show_options(function, method=AUTO_METHOD)

    @wraps(function)
    def ask(*args: Any, **options: Any) -> Call:
        out = options.pop("out", None)
        letter, shapes, operands = _prepare(function.__name__, args)
        recording = Recording(shapes)
        token = _recording.set(recording)
        try:
            function(*operands, **options)
        finally:
            _recording.reset(token)
        call = _take_one(function.__name__, recording)
        return call._replace(out=out, terms=call.terms._replace(letter=letter))

    # `problem.arguments.checked`, but for the interceptor: another call would be felt.
    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        try:
            if _interceptors:
                return _call_interceptor(function, args, options)
            return function(*args, **options)
        except TypeError:
            check_arguments(function, args, options)
            raise

    made: Any = called
    made.ask = ask
    return cast(Callable[P, R], made)


def _call_interceptor(function: Any, args: Any, options: Any) -> Any:
    # A copy, since another thread may end the last block now.
    for interceptor in _interceptors[:1]:
        return interceptor(function, args, options)
    return function(*args, **options)


def _prepare(name: str, given: Sequence[Any]) -> tuple[str | None, bool, list[Any]]:
    """Replace shapes by lazy zeros, and all other operands where there are any.

    Returns the letter of the dtype of arrays beside shapes, and whether there are any.
    """
    args = [*given]
    places = range(min(2, len(args)))
    if name == "einsum" and args:
        letters = isinstance(args[0], str)
        places = range(1, len(args)) if letters else range(0, len(args) // 2 * 2, 2)
    arrays = [args[i] for i in places if not _is_shape(args[i])]
    names = [f"operand {i}" for i, _ in enumerate(arrays, 1)]
    found = iter(as_operands(arrays, names)[0])
    operands = [args[i] if _is_shape(args[i]) else next(found) for i in places]
    dtypes = [x.dtype for x in operands if not isinstance(x, tuple)]
    shapes, letter = len(dtypes) < len(operands), None
    if shapes:
        from dask.array import zeros

        dtype = np.result_type(*dtypes) if dtypes else np.dtype("complex128")
        letter = letter_of(dtype) if dtypes else None
        outlines = (x if isinstance(x, tuple) else x.shape for x in operands)
        operands = [zeros(x, dtype=dtype, chunks=-1) for x in outlines]
    for i, x in zip(places, operands, strict=True):
        args[i] = x.view(_Asked) if isinstance(x, np.ndarray) else x
    return letter, shapes, args


def _is_shape(x: Any) -> bool:
    return isinstance(x, tuple) and all(as_integer(size) is not None for size in x)


def _take_one(name: str, recording: Recording) -> Call:
    if len(recording.calls) == 1:
        return recording.calls[0]
    if not recording.calls:
        problem = f"{name} sums no products of these operands"
        raise PlanError(problem, "Nothing is multiplied through int8", "no-product")
    steps = [f"{m} x {k} times {k} x {n}" for m, n, k in recording.sizes]
    m, n, k = recording.sizes[0]
    raise PlanError(
        f"{name} of these operands makes {len(steps)} products, {', '.join(steps)}",
        f"Ask for one of them, as td.matmul with shapes such as ({m}, {k}), ({k}, {n})",
        "products",
    )
