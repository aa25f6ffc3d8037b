"""The Survey protocol: all that is known of whole operands, by one look."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..typing import Array


class Surveyed(NamedTuple):
    """What the stages of `Engine` of these names find of one operand.

    Attributes
    ----------
    largest_exponents : (rows,) int32
    square_sums : (rows,) int64
    column_exponents : (3, k) int32, or None
    """

    largest_exponents: Array
    square_sums: Array
    column_exponents: Array | None = None


class Survey(Protocol):
    """Stages that an engine launches at once, since to wait costs it more."""

    def __call__(
        self, operands: Sequence[Array], norm_bits: int, *, columns: bool
    ) -> list[Surveyed]:
        """Look at one or two operands that hold all of k.

        Parameters
        ----------
        operands : sequence of (rows, k)
            No dimension is 0.
        norm_bits : int
            Of `Engine.square_sums`.
        columns : bool
            Whether to look at columns.

        Returns
        -------
        list of Surveyed
            Of one allocation: one `Engine.fetch` brings all to the host.
        """
        ...
