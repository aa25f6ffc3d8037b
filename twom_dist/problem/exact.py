"""Products of integers without any rounding: accuracy="exact".

Integers need no scaling. With all exponents 0 every entry is encoded as it is, and

    |Re c|, |Im c| <= parts k max|a| max|b|,    parts: 2 for pairs, 1 for others.

So a residue system whose capacity reaches this bound gives the product exactly, and
what fits 53 bits leaves it in a double without rounding.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2
from typing import Any, Self

import numpy as np

from ..errors import AccuracyError, ArgumentError, PlanError
from ..moduli import (
    METHODS,
    ResidueSystem,
    available_moduli,
    residue_system,
    shortest_system,
)
from ..moduli.accuracy import NATIVE_METHOD
from ..tiles.integers import largest_magnitude, pair_dtype, working_dtype
from ..tiles.routine import Routine

EXACT = "exact"
# Larger integers do not all fit a double.
LARGEST_RESULT = 1 << 53
# Eisenstein integers have no place for all others.
_METHODS = tuple(method for method in METHODS if method != "eisenstein")


def is_asked(names: Mapping[str, Any]) -> bool:
    """Tell whether an exact product is asked for, pairs having no other."""
    accuracy = names.get("accuracy")
    return check_pairs(names) or (isinstance(accuracy, str) and accuracy == EXACT)


def check_pairs(names: Mapping[str, Any]) -> bool:
    """Return pairs, which is True or False."""
    pairs = names.get("pairs", False)
    if not isinstance(pairs, bool | np.bool_):
        raise PlanError(f"pairs={pairs!r} is neither True nor False", "", "pairs")
    return bool(pairs)


@dataclass(frozen=True)
class Integers:
    """What an exact product is of.

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
    def of(
        cls, names: Mapping[str, Any], letter: str | None, A: Any, B: Any, C: Any
    ) -> Self | None:
        """Return what the product is of, if it is to be exact; refuse what cannot."""
        if not is_asked(names):
            return None
        b = A if B is None else B
        found = cls(A.dtype, b.dtype, check_pairs(names))
        found._check(names, letter, C)
        return found

    def _check(self, names: Mapping[str, Any], letter: str | None, C: Any) -> None:
        for name, dtype in (("A", self.a), ("B", self.b)):
            if dtype.kind not in "biu":
                problem = f"accuracy='exact' takes integers, and {name} is {dtype}"
                remedy = "Convert it with astype, or leave accuracy out"
                raise ArgumentError(problem, remedy, "exact-dtype")
        own = "z" if self.pairs else "d"
        if letter not in (None, own):
            problem = f"an exact product is {self.dtype}"
            raise ArgumentError(problem, "Call the routine by its plain name", "dtype")
        accuracy = names.get("accuracy")
        if not (accuracy is None or (isinstance(accuracy, str) and accuracy == EXACT)):
            problem = f"pairs=True multiplies exactly, not to accuracy={accuracy!r}"
            raise AccuracyError(problem, "Leave accuracy out", "pairs-accuracy")
        if names.get("out") is not None:
            found = names["out"]
            problem = f"an exact product is one double for each part, not out={found!r}"
            raise PlanError(problem, "Call td.gaussian_matmul for more bits", "out")
        if names.get("equilibrate"):
            problem = "an exact product scales nothing"
            raise PlanError(problem, "Leave equilibrate out", "equilibrate")
        if C is not None:
            problem = "an exact product adds no C"
            raise PlanError(problem, "Add it to the result", "exact-scalars")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the result."""
        return np.dtype("complex128" if self.pairs else "float64")

    @property
    def magnitudes(self) -> tuple[int, int]:
        """Largest magnitudes of the parts of A, and of B."""
        return largest_magnitude(self.a), largest_magnitude(self.b)

    def choose_system(
        self, routine: Routine, options: Mapping[str, Any], k: int, alpha: complex
    ) -> ResidueSystem:
        """Return the shortest residue system, or refuse what may not be exact."""
        if alpha != 1:
            shown = alpha if alpha.imag else alpha.real
            problem = f"an exact product is not multiplied by alpha={shown}"
            raise PlanError(problem, "Multiply the result by it", "exact-scalars")
        if options.get("num_moduli") is not None:
            problem = "the dtypes decide about the moduli of an exact product"
            raise AccuracyError(problem, "Leave num_moduli out", "accuracy-twice")
        method = options.get("method", "2m")
        if not isinstance(method, str) or method not in _METHODS:
            problem = f"method={method!r} gives no exact product"
            if method not in (*METHODS, NATIVE_METHOD):
                problem = f"method={method!r} is not one of {', '.join(_METHODS)}"
            raise AccuracyError(problem, "Leave method out", "method")
        bound = (2 if self.pairs else 1) * k * self.magnitudes[0] * self.magnitudes[1]
        results = bound * (2 if routine.sums else 1)
        if results > LARGEST_RESULT:
            pairs = "pairs of " if self.pairs else ""
            problem = (
                f"sums of k={k} products of {pairs}{self.a} and {self.b} may exceed "
                "2^53, beyond which a double does not hold all integers"
            )
            remedy = "Call td.gaussian_matmul, or convert to a dtype of fewer bits"
            raise AccuracyError(problem, remedy, "exact-range")
        system = shortest_exact(method, self.pairs, bound, *self.magnitudes)
        assert system is not None  # 2^54 are far fewer than those of all moduli
        return system

    def of_spec(self, engine: str) -> dict[str, Any]:
        """Return what the spec of an exact product says of its tiles."""
        a, b = (pair_dtype(x) if self.pairs else x for x in (self.a, self.b))
        return describe_tiles(a, b, max(self.magnitudes), engine)


def describe_tiles(a: Any, b: Any, largest: int, engine: str) -> dict[str, Any]:
    """Return what a spec says of tiles of integers, or pairs, of these dtypes."""
    return {
        "exact": True,
        "operand": (working_dtype(a, largest) if a.kind in "biuV" else a).str,
        # CuPy blocks are converted as they are made.
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
