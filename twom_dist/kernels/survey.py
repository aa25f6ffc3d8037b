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
    largest_ratio : callable
        Takes a limit, and `bits` of `bound_pairs`. Returns the largest bound of rho^2
        above the limit of all pairs of rows that their angles leave open, 0 without
        any; or None where these take other stages.
    """

    cosines: tuple[float, float]
    columns: Sequence[int] | None
    largest_error: Callable[[], float]
    surveyed: Callable[[], list[Surveyed]]
    known: Sequence[Known] = ()
    largest_ratio: Callable[[float, int], float | None] = lambda *_: None


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
    """Part of the `Engine` protocol: sums of rows, magnitudes, and their products.

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

    def magnitudes(
        self, x: Array, largest: Array, shifts: Array | None = None
    ) -> Array:
        """Round ``sqrt(re^2 + im^2) 2^-e`` to a float32, and cut it to 8 bits.

        Powers of two, squares and their root in float64, each operation rounded by
        itself; 0 in rows without a finite nonzero entry. At least 2^-126 where the
        entry is not 0, which may be more than it is: see `LARGEST_RATIO`.

        Parameters
        ----------
        x : (rows, k)
        largest : (rows,) int32
            Of the whole rows.
        shifts : (k,) int32, optional

        Returns
        -------
        (rows, k) uint16
            The leading half of the nearest float32.
        """
        ...

    def multiply_digits(self, x: Array, y: Array, digits: int) -> Array:
        """Sum products of the leading digits of magnitudes along k, for all pairs.

        With ``h = floor(2^6 x)``, at most 90, and l the next 7 bits of x, by int8
        products:

        * 0 digits: the number of products that are not 0;
        * 1: the sum of ``h_x h_y``, in units of 2^-12;
        * 2: of ``128 h_x h_y + h_x l_y + l_x h_y``, in units of 2^-19.

        Parameters
        ----------
        x, y : (m, k), (n, k) uint16
            From `magnitudes`.
        digits : {0, 1, 2}

        Returns
        -------
        (m, n) int32 or int64
            Exact.
        """
        ...

    def find_open(
        self, products: Array, left: Array, right: Array, factor: float, most: int
    ) -> tuple[Array, Array, Array] | None:
        """List the pairs with ``products_ij^2 factor < left_i right_j``.

        In float64, each operation rounded by itself, from left to right. None if there
        are more than `most`.

        Parameters
        ----------
        products : (m, n) int32 or int64
            From `multiply_digits`.
        left, right : (m,), (n,) float64, on the host
        factor : float
        most : int

        Returns
        -------
        rows, columns, own : (pairs,) int64, on the host
            Row by row; `own` are their products.
        """
        ...

    def bound_pairs(
        self, x: Array, y: Array, rows: Array, columns: Array, bits: int
    ) -> tuple[Array, Array]:
        """Sum products of magnitudes along k, of some pairs, and find the largest.

        Parameters
        ----------
        x, y : (m, k), (n, k) uint16
            From `magnitudes`.
        rows, columns : (pairs,) integers
            Of x and of y, on the host.
        bits : int
            From 13 to 20; such that all sums are below 2^63.

        Returns
        -------
        sums : (pairs,) int64, on the host
            Of ``floor(x 2^bits) floor(y 2^bits)``. Those of tiles add.
        terms : (pairs,) int32, on the host
            The largest sum of the exponents of x and y, ``2^e <= x < 2^(e+1)``, neither
            being 0; `ZERO_ROW` without any, and perhaps where the sum is 2^bits or
            more: a term with a digit of 0 is below 2^-bits, all others are in the sum.
            Those of tiles combine by maximum.
        """
        ...

    def smallest_cosines(
        self,
        x: Array,
        y: Array,
        of_x: tuple[Array, Array],
        of_y: tuple[Array, Array],
        bits: int,
        places: Array,
    ) -> Array:
        """Find the smallest ``(|X| |Y|^T)_ij / (||x_i|| ||y_j||)`` of some matrices.

        Parameters
        ----------
        x, y : (count, m, k), (count, n, k)
            Stacks; y may be x.
        of_x, of_y : (largest, squares)
            Of the rows, from `largest_exponents`, on the host, and `square_sums`.
        bits : int
            `norm_bits` of the squares.
        places : (some,) integers, on the host
            The matrices.

        Returns
        -------
        (some,) float32, on the host
            Within ``(k + 8) 2^-23`` of itself and k 2^-60, and at most 1; of rows that
            have finite entries other than 0.
        """
        ...

    def fetch(self, arrays: Sequence[Array]) -> list[Array]:
        """Bring arrays of one allocation to the host, by one wait for the device."""
        ...

    def fingerprint(self, x: Array) -> int:
        """Return a number that changes, as good as certainly, when x is refilled."""
        ...
