"""The FusedGemm protocol: a product of one tile by one call, if an engine has it."""

from collections.abc import Sequence
from typing import Any, Protocol

from ..moduli import ResidueSystem, ScalingRule
from ..typing import Array, Uplo
from .statistics import RowStatistics


class FusedGemm(Protocol):
    """Gives what all stages of `Engine` give one after the other, bit for bit."""

    def __call__(
        self,
        x: Array,
        y: Array,
        conjugate: tuple[bool, bool],
        system: ResidueSystem,
        rule: ScalingRule,
        dtype: Any,
        *,
        alpha: complex = 1,
        beta: complex = 0,
        c: Array | None = None,
        twin: tuple[int, ...] | None = None,
        uplo: Uplo | None = None,
        hermitian: bool = False,
        out: Array | None = None,
        shifts: Sequence[Array] | None = None,
        known: Sequence[RowStatistics] | None = None,
    ) -> Array:
        """Compute ``alpha X Y^T + beta c`` from operands that hold all of k.

        Or of stacks with one axis in front, the same for all.

        Parameters
        ----------
        x, y : (m, k), (n, k)
            No dimension is 0.
        conjugate : (bool, bool)
            Whether X, and Y, are conjugated.
        system : ResidueSystem
        rule : ScalingRule
        dtype : dtype
            Of the result.
        alpha, beta : number
        c : (m, n), optional
        twin : tuple of int, optional
            Where y is x, the plane of X that is each plane of Y: see
            `Encoded.reordered`.
        uplo : {"full", "lower", "upper"}, optional
            Of a square product that one triangle determines, as for
            `symmetrise_diagonal_tile`.
        hermitian : bool
            Whether its image is conjugated.
        out : (m, n), optional
            Where it is written, C-contiguous; overlaps none of the others.
        shifts : ((k,) int32, (k,) int32), optional
            Exponents of the columns of x and of y, see `Engine`; none for stacks.
        known : one or two of RowStatistics, optional
            Of x, and of y; an engine may find it again.
        """
        ...
