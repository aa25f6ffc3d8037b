"""Calls of other libraries, read as our products."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from ..contractions import einsum, matmul, tensordot
from ..contractions.arrays import PRODUCT_KINDS
from ..contractions.subscripts import parse, write_letters
from ..errors import ArgumentError, TwomError, shown
from ..problem.matrices import is_dask
from ..typing import as_integer


class Counterpart(NamedTuple):
    """Our call for one of another library, without the options of a block."""

    operands: Sequence[Any]
    compute: Callable[[Mapping[str, Any]], Any]


# Reads positional and named arguments; None where nothing is contracted, ArgumentError
# for arguments that we do not have.
Read = Callable[[tuple[Any, ...], Mapping[str, Any]], Counterpart | None]


def _reader(function: Callable[..., Counterpart | None]) -> Read:
    @wraps(function)
    def read(args: tuple[Any, ...], more: Mapping[str, Any]) -> Counterpart | None:
        try:
            return function(*args, **more)
        except TypeError as error:
            if isinstance(error, TwomError):
                raise
            *_, problem = str(error).partition("() ")
            problem = f"this package's function {problem}"
            raise ArgumentError(problem, "", "unknown-option") from None

    return read


@_reader
def _read_matmul(x1: Any, x2: Any, /, out: Any = None) -> Counterpart:
    return Counterpart((x1, x2), lambda options: matmul(x1, x2, out=out, **options))


@_reader
def _read_swapped(x2: Any, x1: Any, /) -> Counterpart:
    """Read ``x2.__rmatmul__(x1)``."""
    return Counterpart((x1, x2), lambda options: matmul(x1, x2, **options))


@_reader
def _read_tensordot(a: Any, b: Any, axes: Any = 2) -> Counterpart | None:
    if as_integer(axes) == 0:
        return None
    return Counterpart((a, b), lambda options: tensordot(a, b, axes, **options))


@_reader
def _read_dot(a: Any, b: Any) -> Counterpart | None:
    """Read a sum over the last axis of a and the last but one of b."""
    if not (np.ndim(a) and np.ndim(b)):
        return None
    return _read_tensordot((a, b, (-1, -min(2, np.ndim(b)))), {})


@_reader
def _read_einsum(
    *operands: Any, dtype: Any = None, optimize: Any = "auto", split_every: Any = None
) -> Counterpart | None:
    """Read subscripts; `split_every` says how dask adds what we do not add."""
    arrays: Sequence[Any]
    subscripts, *arrays = operands
    if not isinstance(subscripts, str):
        subscripts, arrays = write_letters(operands)
    if dtype is not None:
        problem = f"td.einsum has no option dtype={shown(dtype)}"
        raise ArgumentError(problem, "Convert the operands", "dtype")
    terms, output = parse(subscripts, tuple(map(np.ndim, arrays)))
    counts = Counter(letter for term in terms for letter in {*term})
    if all(count < 2 or letter in output for letter, count in counts.items()):
        return None
    return Counterpart(
        arrays,
        lambda options: einsum(subscripts, *arrays, optimize=optimize, **options),
    )


READERS: Mapping[str, Read] = {
    "matmul": _read_matmul,
    "tensordot": _read_tensordot,
    "dot": _read_dot,
    "einsum": _read_einsum,
}
METHODS: Mapping[str, Read] = {
    "__matmul__": _read_matmul,
    "__rmatmul__": _read_swapped,
    "dot": _read_dot,
}


def is_contracted(name: str, args: tuple[Any, ...], more: Mapping[str, Any]) -> bool:
    """Tell whether a call of our own contracts anything."""
    read = READERS.get(name)
    named = {option: x for option, x in more.items() if option in ("a", "b", "axes")}
    # The third is the place of the result.
    args = args[:2] if name == "dot" else args
    try:
        return read is None or read(args, named) is not None
    except TwomError:
        return True  # ours has multiplied operands of more kinds than are read here


def check_operands(operands: Sequence[Any]) -> None:
    """Refuse what our functions would convert, or multiply without int8."""
    cupy_array = getattr(sys.modules.get("cupy"), "ndarray", None)
    kinds = [type(x._meta if is_dask(x) else x) for x in operands]
    for kind in kinds:
        if kind not in (np.ndarray, np.memmap, cupy_array):
            problem = f"an operand is a {kind.__module__}.{kind.__qualname__}"
            remedy = "Give arrays of dask, NumPy or CuPy"
            raise ArgumentError(problem, remedy, "not-a-matrix")
    if cupy_array not in kinds and not any(map(is_dask, operands)):
        problem, remedy = "all operands are NumPy arrays", "Call td.matmul"
        raise ArgumentError(problem, remedy, "families")
    dtypes = [x.dtype for x in operands]
    others = [x for x in dtypes if x.kind not in "biufc"]
    check_dtype(others[0] if others else np.result_type(*dtypes))


def check_dtype(dtype: Any) -> None:
    """Refuse a product that is multiplied without int8, by its dtype."""
    # Other libraries have dtypes of their own, and only those that we take.
    if isinstance(dtype, np.dtype) and dtype.char not in PRODUCT_KINDS:
        problem = f"int8 products are for floating-point matrices, not {dtype}"
        remedy = "Convert it with astype"
        if dtype.kind in "biu":
            remedy += ", or call td.integers.matmul"
        raise ArgumentError(problem, remedy, "dtype")
