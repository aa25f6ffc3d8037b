"""Products of integers without any rounding.

Integers need no scaling. With all exponents 0 every entry is encoded as it is, and

    |Re c|, |Im c| <= parts k max|a| max|b|,    parts: 2 for pairs, 1 for others.

So a residue system whose capacity reaches this bound gives the product exactly, and a
result that fits 53 bits becomes a double without rounding.
"""

from dataclasses import dataclass
from math import log2
from typing import Any, Self

import numpy as np

from ..errors import AccuracyError, ArgumentError
from ..moduli import (
    ResidueSystem,
    available_moduli,
    residue_system,
    shortest_system,
)
from ..tiles.integers import largest_magnitude, pair_dtype, working_dtype
from ..tiles.routine import Routine
from .choice import Choice
from .target import Exact

# Larger integers do not all fit a double.
LARGEST_RESULT = 1 << 53


@dataclass(frozen=True)
class Integers:
    """The integers that an exact product is made of.

    Attributes
    ----------
    a, b : dtype
        Of integers or booleans: the parts of the entries of A, and of B.
    pairs : bool
        Whether entries have two parts.
    """

    a: np.dtype[Any]
    b: np.dtype[Any]
    pairs: bool

    @classmethod
    def of(cls, A: Any, B: Any, choice: Choice) -> Self | None:
        """Return the integers of an exact product; None for any other product."""
        if not isinstance(choice.target, Exact):
            return None
        for name, x in (("A", A), ("B", B)):
            if x is not None and x.dtype.kind not in "biu":
                problem = f"an exact product takes integers, and {name} is {x.dtype}"
                remedy = "Convert it with astype, or call td.gemm"
                raise ArgumentError(problem, remedy, "exact-dtype")
        return cls(A.dtype, (A if B is None else B).dtype, choice.pairs)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the result."""
        return np.dtype("complex128" if self.pairs else "float64")

    @property
    def magnitudes(self) -> tuple[int, int]:
        """Largest magnitudes of the parts of A, and of B."""
        return largest_magnitude(self.a), largest_magnitude(self.b)

    def choose_system(self, routine: Routine, method: str, k: int) -> ResidueSystem:
        """Return the shortest residue system, or refuse what may not be exact."""
        bound = (2 if self.pairs else 1) * k * self.magnitudes[0] * self.magnitudes[1]
        results = bound * (2 if routine.sums else 1)
        if results > LARGEST_RESULT:
            pairs = "pairs of " if self.pairs else ""
            problem = (
                f"sums of k={k} products of {pairs}{self.a} and {self.b} may exceed "
                "2^53, beyond which a double does not hold all integers"
            )
            remedy = "Call td.integers.matmul, or convert to a dtype of fewer bits"
            raise AccuracyError(problem, remedy, "exact-range")
        system = shortest_exact(method, self.pairs, bound, *self.magnitudes)
        assert system is not None  # 2^54 is far below the capacity of all moduli
        return system

    def of_spec(self, engine: str) -> dict[str, Any]:
        """Return the fields of a spec that describe the tiles of an exact product."""
        a, b = (pair_dtype(x) if self.pairs else x for x in (self.a, self.b))
        return describe_tiles(a, b, max(self.magnitudes), engine)


def describe_tiles(a: Any, b: Any, largest: int, engine: str) -> dict[str, Any]:
    """Return the fields of a spec for tiles of integers, or pairs, of these dtypes."""
    return {
        "exact": True,
        "operand": (working_dtype(a, largest) if a.kind in "biuV" else a).str,
        # CuPy blocks are converted when they are made.
        "stored": () if engine == "cuda" else tuple(map(_name_dtype, (a, b))),
    }


def _name_dtype(dtype: np.dtype[Any]) -> str:
    """Name a dtype of integers or pairs so that `numpy.dtype` reads it."""
    if dtype.names is None:
        return dtype.newbyteorder("=").str
    return ",".join([dtype[0].str] * 2)


def shortest_exact(
    method: str, is_complex: bool, bound: int, *largest: int
) -> ResidueSystem | None:
    """Return the shortest system for results up to a bound, or None if it is too large.

    `largest`: magnitudes of entries, which have to fit as well: engines cut them into
    words for magnitudes up to the root of the capacity.
    """
    needed = max(bound, *(x * x for x in largest))
    kind = method if is_complex else "real"
    if kind != "hybrid":
        for count in range(1, len(available_moduli(kind)) + 1):
            system = residue_system(kind, count)
            if system.capacity >= needed:
                return system
        if kind != "2m":
            return None
    bits = log2(max(needed, 1)) + 1
    found = shortest_system("hybrid", bits)
    while found is not None and found.capacity < needed:
        bits += 2.0**-16
        found = shortest_system("hybrid", bits)
    return found
