"""The stages of an engine that look at operands before moduli are chosen."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..typing import Array
from .operands import Sample


class Surveyed(NamedTuple):
    """Findings of the stages of `Engine` of these names, for one operand.

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
        self,
        operands: Sequence[Array],
        norm_bits: int,
        *,
        columns: bool,
        shifts: Sequence[Array] | None = None,
    ) -> list[Surveyed]:
        """Look at one or two operands that hold all of k.

        Parameters
        ----------
        operands : sequence of (rows, k)
            No dimension is 0.
        norm_bits : int
            Of `Engine.square_sums`.
        columns : bool
            Whether to look at columns, as they are without shifts.
        shifts : sequence of (k,) int32, optional
            One for each operand.

        Returns
        -------
        list of Surveyed
            Of one allocation: one `Engine.fetch` brings all to the host.
        """
        ...


class Looks(Protocol):
    """Part of the `Engine` protocol: samples, their products, and all at once.

    `survey` is None where to wait for answers costs nothing.
    """

    survey: Survey | None

    def magnitudes(self, samples: Sequence[Sample]) -> list[Array]:
        """Round ``sqrt(re^2 + im^2) 2^-e`` to a float32, and cut it to 8 bits.

        Powers of two, squares and their root in float64, each operation rounded by
        itself; at least 2^-126 where the entry is not 0, and 0 in rows without a finite
        nonzero entry.

        Returns
        -------
        list of (count, k) uint16
            The leading half of the nearest float32, of the rows of each sample.
        """
        ...

    def row_sums(self, x: Array, largest: Array, sums: Array, bits: int) -> Array:
        """Sum the magnitudes of each row over its norm.

        Parameters
        ----------
        x : (count, m, k)
        largest, sums : (count, m) int32, int64
            Of the rows, from `largest_exponents` and `square_sums`.
        bits : int
            `norm_bits` of the sums.

        Returns
        -------
        (count, m) float32
            As exact as `smallest_cosines`; sqrt(k) for rows without finite entries
            other than 0, and 0 for rows that an engine does not sum.
        """
        ...

    def smallest_cosines(
        self,
        x: Array,
        y: Array,
        of_x: tuple[Array, Array],
        of_y: tuple[Array, Array],
        bits: int,
    ) -> Array:
        """Find the smallest ``(|X| |Y|^T)_ij / (||x_i|| ||y_j||)`` of each matrix.

        Parameters
        ----------
        x, y : (count, m, k), (count, n, k)
            Stacks; y may be x.
        of_x, of_y : (largest, sums)
            Of the rows, from `largest_exponents` and `square_sums`.
        bits : int
            `norm_bits` of the sums.

        Returns
        -------
        (count,) float32
            Within ``(k + 8) 2^-23`` of itself and k 2^-60, and at most 1; of rows that
            have finite entries other than 0.
        """
        ...

    def multiply_magnitudes(self, x: Array, y: Array, bits: int) -> Array:
        """Sum ``floor(x 2^bits) floor(y 2^bits)`` along k, for all pairs of rows.

        Parameters
        ----------
        x, y : (m, k), (n, k) uint16
            From `magnitudes`.
        bits : int
            At most 20; such that all sums are below 2^53.

        Returns
        -------
        (m, n) float64 or int64
            Exact.
        """
        ...

    def largest_terms(self, x: Array, y: Array, wanted: Array) -> Array:
        """Find the largest sum of the exponents of x and y along k, neither being 0.

        Parameters
        ----------
        x, y : (m, k), (n, k) uint16
            As for `multiply_magnitudes`.
        wanted : (m, n) bool
            Pairs that matter.

        Returns
        -------
        (m, n) int32
            Exponents e of ``2^e <= x < 2^(e+1)``; `ZERO_ROW` where there is no term,
            and perhaps where none is wanted. Those of tiles combine by maximum.
        """
        ...

    def fetch(self, arrays: Sequence[Array]) -> list[Array]:
        """Bring arrays of one allocation to the host, by one wait for the device."""
        ...

    def fingerprint(self, x: Array) -> int:
        """Return a number that changes, as good as certainly, when x is refilled."""
        ...
