"""A call of a routine, before anything is known of its matrices."""

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, Self

from ..tiles.routine import Routine
from ..tiles.scaled import from_named, named
from ..typing import Op, Uplo
from .choice import Choice


class Terms(NamedTuple):
    """Everything that a call says, apart from its matrices.

    Attributes
    ----------
    routine : Routine
    choice : Choice
    ops : tuple of {"N", "T", "C"}
        op_a and op_b of gemm, or op of an update.
    uplo : {"full", "lower", "upper"}
        Of an update.
    alpha : number
    beta : number, optional
        Given with C.
    letter : str, optional
        Of a BLAS-typed name.
    """

    routine: Routine
    choice: Choice = Choice()
    ops: tuple[Op, ...] = ()
    uplo: Uplo = "full"
    alpha: complex = 1
    beta: complex | None = None
    letter: str | None = None


class Names(NamedTuple):
    """Dimensions of DataArrays by their names.

    Attributes
    ----------
    dim : hashable, or several
        Contracted.
    rows : hashable or several, optional
        Rows of an update.
    pairs : hashable or False, optional
        Holds real and imaginary parts; None where nothing was said.
    """

    dim: Any
    rows: Any = None
    pairs: Hashable = None


class Call(NamedTuple):
    """A call with its matrices: arrays, shapes or paths.

    Attributes
    ----------
    terms : Terms
    A, B, C : matrix
        A may have a diagonal. B is None for herk and syrk, C where nothing is added.
    out : array, optional
        Where the result is written.
    names : Names, optional
        Given if the matrices are DataArrays.
    """

    terms: Terms
    A: Any
    B: Any = None
    C: Any = None
    out: Any = None
    names: Names | None = None

    def arrays(self) -> dict[str, Any]:
        """Return all arrays by their names in errors, in the order of the call."""
        given = {"B": self.B, "C": self.C, "out": self.out}
        return {"A": None, **given, **named(self.A)}

    def with_arrays(self, arrays: Mapping[str, Any]) -> Self:
        """Return the call of other arrays; None of those that are left out."""
        B, C, out = map(arrays.get, ("B", "C", "out"))
        return self._replace(A=from_named(arrays), B=B, C=C, out=out)
