"""``method="auto"``: the size from which products use int8.

An int8 product passes over A, B and C about a hundred times, which its faster
multiplications have to win back. So int8 is faster from a certain harmonic mean of m, n
and k on, like a level of Winograd's algorithm (`kernels.winograd`); smaller products
are native. m, n and k are those of the whole product, or of each product in a stack,
and the chip is that of this process, so the choice does not depend on tiles, chunks or
workers. Measurements by `tune` take precedence over the table, and
the setting ``twom-dist.blas-below`` over both.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from math import ceil, inf
from typing import Any

import numpy as np

from ..config import setting, size_setting
from ..kernels import chip_files
from ..kernels.limits import Shape, mean_side
from . import table
from .chips import Chip, chip_of
from .table import Crossover

# Routines whose products are made of those of another one.
_MADE_OF = {"her2k": "gemm", "syr2k": "gemm"}
# Those that take most come last.
_COMPLEX, _REAL = ("complex64", "complex128"), ("float32", "float64")
# Routines and dtypes that have a size of their own.
KINDS = (
    *((routine, dtype) for dtype in _REAL for routine in ("gemm", "syrk")),
    *((routine, dtype) for dtype in _COMPLEX for routine in ("gemm", "herk", "syrk")),
)
_revision = 0
_answers: ContextVar[list[str] | None] = ContextVar("twom-dist-answers", default=None)


def prefers_native(
    engine: str,
    routine: str,
    dtype: Any,
    shape: Shape,
    chip: Chip | None = None,
    *,
    tell: bool = False,
) -> bool:
    """Decide whether the native product is known to be faster, or nothing is known.

    An engine "auto" counts as that of NumPy arrays; `dtype`: that of the result;
    `chip`: by default that of this process, even if workers multiply; `tell`: whether
    those who listen are told.
    """
    known = _find(chip or chip_of(engine), routine, np.dtype(dtype))
    native = known is None or mean_side(shape) < known.size
    native = native and engine != "reference"
    if tell and (answers := _answers.get()) is not None:
        answers.append(tell_choice(engine, routine, dtype, shape) if native else "")
    return native


@contextmanager
def listen() -> Iterator[list[str]]:
    """Collect why products are native; an empty text for each that is not."""
    answers: list[str] = []
    token = _answers.set(answers)
    try:
        yield answers
    finally:
        _answers.reset(token)


def is_small(dtype: np.dtype[Any], shape: Shape) -> bool:
    """Tell whether all products of NumPy arrays of this shape are native."""
    least = _least(dtype.char, str(setting("crossovers")))
    native = mean_side(shape) < least and setting("blas-below") is None
    if native and (answers := _answers.get()) is not None:
        answers.append(tell_choice("cpu", "gemm", dtype, shape))
    return native


@cache
def _least(char: str, folder: str) -> float:
    """Find the least crossover of a dtype for NumPy arrays."""
    chip, dtype = chip_of("cpu"), np.dtype(char)
    found = (_find_measured(chip, x, dtype) for x in ("gemm", "herk", "syrk"))
    return min((x.size for x in found if x is not None), default=inf)


def _find(chip: Chip, routine: str, dtype: np.dtype[Any]) -> Crossover | None:
    """Find the size by the setting, by what was measured here, or by the table."""
    given = size_setting("blas-below")
    if given is not None:
        return Crossover(given, "the setting twom-dist.blas-below")
    return _find_measured(chip, routine, dtype)


def _find_measured(chip: Chip, routine: str, dtype: np.dtype[Any]) -> Crossover | None:
    rule = _MADE_OF.get(routine, routine)
    if rule == "herk" and dtype.kind == "f":
        rule = "syrk"
    told, kind = chip_files.read(chip.name), f"{rule} {dtype.name}"
    if told is not None and kind in told["n"]:
        source = f"measured on {chip.name}, {told['date']}"
        return Crossover(told["n"][kind], source)
    return table.look_up(chip, rule, dtype.name)


def state() -> tuple[Any, ...]:
    """Return what choices depend on besides the product: settings and measurements."""
    return str(setting("blas-below")), str(setting("crossovers")), _revision


def forget() -> None:
    """Find everything anew, after another measurement."""
    global _revision
    _revision += 1
    _least.cache_clear()


def tell_choice(engine: str, routine: str, dtype: Any, shape: Shape) -> str:
    """Say why a method was chosen by "auto", and by which chip."""
    if engine == "reference":
        return "int8, which is all that the reference engine does"
    chip = chip_of(engine)
    known, size = _find(chip, routine, np.dtype(dtype)), mean_side(shape)
    kind = f"{routine} of {np.dtype(dtype).name}"
    # Rounded so that the smaller number looks smaller.
    sides = f"n = {int(size)}"
    if len({*shape}) > 1:
        sides += ", the harmonic mean of {}, {} and {},".format(*shape)
    if known is None:
        told = f"native, since int8 is not known to be faster for {kind}"
        told += ", which twom-dist tune measures"
    elif known.size == inf:
        told = f"native, since int8 was not faster for {kind} ({known.source})"
    elif size < known.size:
        told = f"native: {sides} is below {ceil(known.size)} ({known.source})"
    else:
        told = f"int8: {sides} is at least {int(known.size)} ({known.source})"
    if chip.name in told or size_setting("blas-below") is not None:
        return told
    return f"{told}; this process would multiply on {chip.name}"
