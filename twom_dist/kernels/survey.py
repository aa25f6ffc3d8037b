"""The stages of an engine that look at operands before moduli are chosen."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ..moduli import ScalingRule
from ..typing import Array
from .at_once import Known


class Surveyed(NamedTuple):
    """Findings of the stages of `Engine`, for one operand, which may be a stack.

    Attributes
    ----------
    largest_exponents : (..., rows) int32
    squares : (..., rows) int64
    totals : (..., rows) int64, or None
        Both of `row_sums`.
    column_exponents : (..., 3, k) int32, or None
    """

    largest_exponents: Array
    squares: Array
    totals: Array | None = None
    column_exponents: Array | None = None


class Summary(NamedTuple):
    """Numbers that decide about each matrix of a stack, on the host.

    Attributes
    ----------
    cosines : (sides, count) float64
        The smallest of `stack_summary.find_cosines` of the rows of each matrix, and 1.
    columns : (3, count) int64, or None
        From `stack_summary.sum_columns`, where columns were looked at.
    """

    cosines: Array
    columns: Array | None


class Weighed(NamedTuple):
    """Numbers that mostly decide about a product, and where they come from.

    Attributes
    ----------
    cosines, columns : (float, float), three integers or None
        Of `Summary`, of both sides.
    largest_error : callable
        Returns the largest of `Looks.error_sums` of all rows, if there is a rule.
    surveyed : callable
        Returns the findings for each operand, where they are.
    known : sequence of Known
        Of each operand, if it is worth telling a product at once; else none.
    """

    cosines: tuple[float, float]
    columns: Sequence[int] | None
    largest_error: Callable[[], float]
    surveyed: Callable[[], list[Surveyed]]
    known: Sequence[Known] = ()


class Weigh(Protocol):
    """All stages up to the numbers that decide, by one wait if the engine waits."""

    def __call__(
        self,
        operands: Sequence[Array],
        norm_bits: int,
        *,
        columns: bool,
        rule: ScalingRule | None,
        meanwhile: Callable[[], object] | None = None,
    ) -> Weighed:
        """Look at one or two operands that hold all of k.

        Parameters
        ----------
        operands : sequence of (rows, k)
            No dimension is 0.
        norm_bits : int
            Of `Engine.square_sums`.
        columns : bool
            Whether to look at columns.
        rule : ScalingRule, optional
            By which exponents are chosen whose rounding errors are summed, if given.
        meanwhile : callable, optional
            Called before the wait, if there is one.
        """
        ...


class Looks(Protocol):
    """Part of the `Engine` protocol: sums of rows, and octaves of entries.

    Attributes
    ----------
    waits : bool
        Whether the host waits for answers, so that one wait is worth more stages.
    """

    waits: bool

    @property
    def weigh(self) -> Weigh:
        """Return the stages that weigh."""
        ...

    def survey(
        self,
        operands: Sequence[Array],
        norm_bits: int,
        *,
        totals: bool,
        columns: bool,
        shifts: Sequence[Array] | None = None,
    ) -> list[Surveyed]:
        """Look at one or two operands that hold all of k, by all stages at once.

        Parameters
        ----------
        operands : sequence of (..., rows, k)
            No dimension is 0; the same axes in front.
        norm_bits : int
            Of `Engine.square_sums`.
        totals : bool
            Whether to sum magnitudes.
        columns : bool
            Whether to look at columns, as they are without shifts.
        shifts : sequence of (k,) int32, optional
            One for each operand; none for stacks.

        Returns
        -------
        list of Surveyed
            Of one allocation: one `Engine.fetch` brings all to the host.
        """
        ...

    def row_sums(
        self, x: Array, largest: Array, norm_bits: int, shifts: Array | None = None
    ) -> tuple[Array, Array]:
        """Sum squares, as `square_sums` does, and magnitudes, in the same units.

        With q the sum of ``ceil(|t| 2^(norm_bits - e))^2`` over the parts of an entry,
        its magnitude counts ``max(0, isqrt(q) - 2)``. That is at most the magnitude,
        since ceilings add less than ``sqrt(2)`` to it. Stacks are taken, too.

        Returns
        -------
        squares, totals : (rows,) int64
            Exact; 0 for zero rows and those that are not finite. Sums of tiles add.
        """
        ...

    def error_sums(
        self, x: Array, exponents: Array, bits: int, shifts: Array | None = None
    ) -> Array:
        """Sum ``ceil(|x' - x 2^s| 2^bits)^2``: what `encode` rounds away.

        Parameters
        ----------
        x : (rows, k)
        exponents : (rows,) int32
            From `choose_exponents`. Not of a hexagonal system.
        bits : int
            At most 20; `norm_bits` of k suffices.
        shifts : (k,) int32, optional

        Returns
        -------
        (rows,) int64
            Exact; 0 for rows that are not finite. Sums of tiles add.
        """
        ...

    def summarise(self, found: Sequence[Surveyed], k: int) -> Summary:
        """Find the smallest cosines of stacks' matrices, and sums of their columns.

        `found`: of (count, rows) and (count, 3, k), of op(A), and of op(B)^T unless
        that is the same. By one wait for the device.
        """
        ...

    def largest_errors(
        self,
        operands: Sequence[Array],
        exponents: Sequence[Array],
        bits: int,
        places: Array,
    ) -> Array:
        """Find the largest of `error_sums` of the rows of some matrices.

        Parameters
        ----------
        operands : sequence of (count, rows, k)
            One or two.
        exponents : sequence of (count, rows) int32
        bits : int
            As for `error_sums`.
        places : (some,) integers, on the host
            The matrices.

        Returns
        -------
        (some,) int64, on the host
            Exact; by one wait for the device.
        """
        ...

    def octaves(self, x: Array, largest: Array, shifts: Array | None = None) -> Array:
        """Find how many octaves below the largest of its row each entry is.

        By the larger part of an entry: ``e - f``, where e is the largest exponent of
        the row and f the smallest with ``|part| < 2^f``. `octaves.FAR` for 63 and more;
        `octaves.NONE` for zeros, and in rows without a finite nonzero entry.

        Parameters
        ----------
        x : (..., rows, k)
        largest : (..., rows) int32
            Of the whole rows.
        shifts : (k,) int32, optional
            None for stacks.

        Returns
        -------
        (..., rows, k) uint8
            Octaves, or one of these two values.
        """
        ...

    def count_octaves(self, x: Array) -> Array:
        """Count the entries of each row down to the octaves `octaves.COUNTED`.

        Parameters
        ----------
        x : (..., rows, k) uint8
            From `octaves`.

        Returns
        -------
        (..., rows, 25) int32
            Those of tiles add.
        """
        ...

    def multiply_octaves(self, x: Array, y: Array) -> Array:
        """Multiply in the ring of (min, +): the least sum of octaves of all pairs.

        Parameters
        ----------
        x, y : (m, k), (n, k) uint8
            From `octaves`.

        Returns
        -------
        (m, n) uint8
            Of ``x[i, l] + y[j, l]``, and `octaves.NONE` where all are at least that.
            Those of tiles combine by minimum. Below `octaves.FAR` it is that of a term
            whose octaves are known; else there is none.
        """
        ...

    def fetch(self, arrays: Sequence[Array]) -> list[Array]:
        """Bring arrays of one allocation to the host, by one wait for the device."""
        ...

    def fingerprint(self, x: Array) -> int:
        """Return a number that changes, as good as certainly, when x is refilled."""
        ...
