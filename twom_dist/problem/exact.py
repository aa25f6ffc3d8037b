"""Products of integers without any rounding.

Integers need no scaling. With all exponents 0 every entry is encoded as it is, and

    |Re c|, |Im c| <= parts k max|a| max|b|,    parts: 2 for pairs, 1 for others.

So a residue system whose capacity reaches this bound gives the product exactly, and a
result that fits 53 bits becomes a double without rounding.
"""

from dataclasses import dataclass
from math import isqrt
from typing import Any, Self

import numpy as np

from ..errors import AccuracyError, ArgumentError
from ..moduli import (
    ResidueSystem,
    available_moduli,
    residue_system,
    samples_system,
)
from ..tiles.integers import largest_magnitude, pair_dtype, working_dtype
from ..tiles.routine import Routine
from .choice import Choice, Exact
from .dtypes import DTYPES, INTEGERS
from .integer_valued import is_floating, largest_whole
from .matrices import Header, outline

LARGEST_RESULT = 1 << 53  # larger integers do not all fit a double


@dataclass(frozen=True)
class Integers:
    """The integers that an exact product is made of."""

    # Headers of A and B: the dtype of the parts of entries, and the largest magnitude
    # where the dtype does not say enough and that is known.
    a: Header
    b: Header
    pairs: bool  # whether entries are pairs of integers

    @classmethod
    def of(cls, A: Any, B: Any, choice: Choice) -> Self | None:
        """Return the integers of an exact product; None for any other product."""
        if not isinstance(choice.target, Exact):
            return None
        for name, x in (("A", A), ("B", B)):
            if x is not None and x.dtype.kind not in "biu" and not is_floating(x.dtype):
                problem = f"exact products are of integers, but {name} is {x.dtype}"
                remedy = "Convert it with astype, or call td.gemm, td.herk or the like"
                raise ArgumentError(problem, remedy, "exact-dtype")
        a, b = (outline(x) for x in (A, A if B is None else B))
        return cls(a, b, choice.pairs)

    @property
    def is_complex(self) -> bool:
        """True if entries have two parts."""
        return self.pairs or "c" in (self.a.dtype.kind, self.b.dtype.kind)

    def choose_letter(self, asked: str | None) -> str:
        """Return the letter of the result's dtype, by default one that rounds none."""
        own = "zc" if self.is_complex else "ds"
        if asked in INTEGERS:
            return own[0]
        if asked and asked not in own:
            parts = "complex" if self.is_complex else "real"
            problem = f"{DTYPES[asked]} was requested for a product of {parts} integers"
            one, other = (DTYPES[x] for x in own)
            remedy = f"Request {one}, {other} or one of {', '.join(INTEGERS)}"
            raise ArgumentError(problem, remedy, "exact-dtype")
        return asked or own[0]

    def find_magnitudes(self, routine: Routine, k: int) -> tuple[int, int]:
        """Return the largest magnitudes that the parts of A, and of B, may have.

        Where only blocks will tell, they are as large as results of 53 bits allow.
        """
        a, b = _find_magnitude(self.a), _find_magnitude(self.b)
        room = LARGEST_RESULT // max(1, self._count_terms(routine, k))
        fair = isqrt(room)
        left = (fair if b is None else room // max(b, 1)) if a is None else a
        right = (fair if a is None else room // max(a, 1)) if b is None else b
        return _limit(self.a, left), _limit(self.b, right)

    def _count_terms(self, routine: Routine, k: int) -> int:
        return (2 if self.is_complex else 1) * k * (2 if routine.sums else 1)

    def choose_system(
        self, routine: Routine, method: str, k: int, asked: str | None
    ) -> ResidueSystem:
        """Return the shortest residue system, or refuse what may not be exact.

        `asked`: what `choose_letter` was asked for.
        """
        magnitudes = self.find_magnitudes(routine, k)
        results = self._count_terms(routine, k) * magnitudes[0] * magnitudes[1]
        short = asked == "int32" and results > np.iinfo(np.int32).max
        if short or results > LARGEST_RESULT:
            pairs = "pairs of " if self.pairs else ""
            left, right = (
                str(x.dtype) if x.largest is None else f"parts up to {x.largest}"
                for x in (self.a, self.b)
            )
            problem = f"sums of k={k} products of {pairs}{left} and {right} may exceed "
            if short:
                problem += "2^31 - 1, the largest int32"
                raise AccuracyError(problem, "Request int64", "exact-range")
            problem += "2^53, beyond which a double does not hold all integers"
            remedy = (
                "Call td.integers.matmul, with dask arrays of files; or, if they fit, "
                "convert with astype to a dtype of fewer bits"
            )
            raise AccuracyError(problem, remedy, "exact-range")
        # Both products of a sum are decoded by themselves.
        bound = results // 2 if routine.sums else results
        system, a, b = None, self.a.dtype, self.b.dtype
        if method == "2m":
            system = find_samples(self.is_complex, bound, a, b)
        if system is None:
            system = shortest_exact(method, self.is_complex, bound, *magnitudes)
        assert system is not None  # 2^54 is far below the capacity of all moduli
        return system

    def of_spec(self, engine: str, system: ResidueSystem | None) -> dict[str, Any]:
        """Return the fields of a spec that describe the tiles of an exact product."""
        kinds = (x.dtype for x in (self.a, self.b))
        a, b = (pair_dtype(x) if self.pairs else x for x in kinds)
        known = [x for x in map(_find_magnitude, (self.a, self.b)) if x is not None]
        return describe_tiles(a, b, max(known, default=0), engine, system)


def _find_magnitude(x: Header) -> int | None:
    if x.largest is not None or is_floating(x.dtype):
        return x.largest
    return largest_magnitude(x.dtype)


def _limit(x: Header, largest: int) -> int:
    """Return a magnitude, of floating point at most that of the integers it holds."""
    if not is_floating(x.dtype):
        return largest
    return min(max(largest, 1), largest_whole(x.dtype))  # no product takes less than 1


def describe_tiles(
    a: Any, b: Any, largest: int, engine: str, system: ResidueSystem | None
) -> dict[str, Any]:
    """Return the fields of a spec for tiles of integers, or pairs, of these dtypes.

    `largest`: the largest magnitude of those that are not floating-point numbers.
    """
    kinds = (x if is_floating(x) else working_dtype(x, largest) for x in (a, b))
    return {
        "exact": True,
        "operand": np.result_type(np.float32, *kinds).str,
        "stored": stored_tiles(tuple(map(_name_dtype, (a, b))), engine, system),
    }


def stored_tiles(
    names: tuple[str, ...], engine: str, system: ResidueSystem | None
) -> tuple[str, ...]:
    """Return the dtypes of tiles of integers, or pairs, until they are encoded.

    CuPy has no pairs: those of samples are words of 16 bits there, and all other blocks
    are converted when they are made.
    """
    if engine != "cuda":
        return names
    if system is None or not system.wraps:
        return ()
    return tuple(_WORDS_OF_PAIRS.get(x, x) for x in names)


_WORDS_OF_PAIRS = {"|i1,|i1": "<i2", "|u1,|u1": "<u2", "|b1,|b1": "<i2"}


def _name_dtype(dtype: np.dtype[Any]) -> str:
    """Name a dtype of integers or pairs so that `numpy.dtype` reads it."""
    if dtype.names is None:
        return dtype.newbyteorder("=").str
    return ",".join([dtype[0].str] * 2)


def find_samples(is_complex: bool, bound: int, *dtypes: Any) -> ResidueSystem | None:
    """Return the system of words for integers of 8 bits, whose results have a bound.

    None for others.
    """
    if not all(x.kind in "biu" and x.itemsize == 1 for x in dtypes):
        return None
    return samples_system(is_complex, bound)


def shortest_exact(
    method: str, is_complex: bool, bound: int, *largest: int
) -> ResidueSystem | None:
    """Return the shortest system for results up to a bound, or None if it is too large.

    `largest`: magnitudes of entries, which have to fit as well: engines cut them into
    words for magnitudes up to the root of the capacity.
    """
    needed = max(bound, *(x * x for x in largest))
    kind = method if is_complex else "real"
    for name in (kind, "hybrid") if kind == "2m" else (kind,):
        for count in range(1, len(available_moduli(name)) + 1):
            system = residue_system(name, count)
            if system.capacity >= needed:
                return system
    return None
