"""A call of a routine, before its matrices are examined."""

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, Self

from ..tiles.diagonal import from_named, named
from ..tiles.routine import Routine
from ..typing import Op, Uplo
from .choice import Choice


class Terms(NamedTuple):
    """Everything that a call says, apart from its matrices."""

    routine: Routine
    choice: Choice = Choice()
    ops: tuple[Op, ...] = ()  # op_a and op_b of gemm, or op of an update
    uplo: Uplo = "full"
    alpha: complex = 1
    beta: complex | None = None  # given with C
    letter: str | None = None  # that of a BLAS-typed name


class Names(NamedTuple):
    """Dimensions of DataArrays by their names: one, or several."""

    dim: Any  # what is contracted
    rows: Any = None  # rows of an update
    pairs: Hashable = None  # what holds real and imaginary parts; None if unsaid


class Call(NamedTuple):
    """A call with its matrices: arrays, shapes or paths."""

    terms: Terms
    # A may have a diagonal. B is None for herk and syrk, C where nothing is added.
    A: Any
    B: Any = None
    C: Any = None
    out: Any = None  # where the result is written
    names: Names | None = None  # given if the matrices are DataArrays

    def arrays(self) -> dict[str, Any]:
        """Return all arrays by their names in errors, in the order of the call."""
        given = {"B": self.B, "C": self.C, "out": self.out}
        return {"A": None, **given, **named(self.A)}

    def with_arrays(self, arrays: Mapping[str, Any]) -> Self:
        """Return the call of other arrays; None of those that are left out."""
        B, C, out = map(arrays.get, ("B", "C", "out"))
        return self._replace(A=from_named(arrays), B=B, C=C, out=out)
