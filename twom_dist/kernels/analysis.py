"""The stages of an engine that analyse operands before moduli are chosen."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..moduli import ScalingRule
from ..typing import Array
from .statistics import Ask, RowStatistics


class Analysis(Protocol):
    """The numbers that decide about a product, or about each of two stacks."""

    @property
    def cosines(self) -> Array:
        """Return `statistics.smallest_cosines`: (sides, count), on the host."""

    @property
    def columns(self) -> Array | None:
        """Return `statistics.sum_columns` where asked for: (3, count), on the host."""

    def statistics(self) -> list[RowStatistics]:
        """Return those of each operand, where it is; octaves only if expected."""

    def largest_errors(self, places: Array) -> Array:
        """Return the largest of `Analyses.error_sums` of the rows of some matrices.

        By the exponents that the rule of the analysis chooses: int64, on the host.
        """

    def count_octaves(self, places: Array) -> list[RowStatistics]:
        """Return squares and octaves of some matrices: (some, rows), on the host."""


class Analyses(Protocol):
    """Part of the `Engine` protocol: what is known of rows, before they are encoded."""

    def measure(
        self,
        x: Array,
        norm_bits: int,
        asks: Collection[Ask] = (),
        *,
        largest: Array | None = None,
        shifts: Array | None = None,
    ) -> RowStatistics:
        """Find what is asked for of the rows of x, which may be a stack of matrices.

        Always the largest exponents: the smallest e with ``|Re|, |Im| < 2^e`` for each
        row, `ZERO_ROW` for a row of zeros, `NAN_ROW` where any part is NaN, otherwise
        `NONFINITE_ROW` where any is infinite. Those of tiles combine by maximum; these
        three kinds of rows have sums and counts of 0.

        squares
            With q the sum of ``ceil(|t| 2^(norm_bits - e))^2`` over the parts of an
            entry, the sum of all q. Those of tiles add, below 2^63.
        totals
            The sum of ``max(0, isqrt(q) - 2)``: at most the magnitudes, since ceilings
            add less than ``sqrt(2)`` to each. Those of tiles add.
        columns
            Exponents of the parts of each column that are not 0, with e the smallest of
            ``|t| < 2^e``: the largest e less that of the row, where subnormal numbers
            count as the smallest normal one; the largest e; the largest -e. `ZERO_ROW`
            in all where the column is 0. Rows that are not finite are left out. Those
            of tiles combine by maximum.
        octaves
            Numbers of entries down to each of `statistics.COUNTED`. Those of tiles add.

        x: (..., rows, k) float32, float64, complex64 or complex128, of any strides;
        norm_bits: at most 20; `largest`: (..., rows) int32 of the whole rows, all tiles
        together, unless x holds all of k; `shifts`: (k,) int32, see `Engine`; none for
        stacks, and columns are analysed as they are without.
        """

    def analyse(
        self,
        operands: Sequence[Array],
        norm_bits: int,
        *,
        columns: bool,
        rule: ScalingRule | None,
        octaves: bool = False,
        shifts: Sequence[Array] | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> Analysis:
        """Take all statistics of operands to the numbers that decide, by one wait.

        `operands`: one or two that hold all of k, with the same axes in front; no
        dimension is 0, and one is that of both sides. `columns`: whether to analyse
        columns. `rule`: chooses the exponents whose rounding errors may be asked for.
        `octaves`: whether `Analysis.count_octaves` is expected, so that it needs no
        wait. `shifts`: one for each operand; none for stacks. `meanwhile` is called
        before the wait, if there is one.
        """

    def error_sums(
        self,
        x: Array,
        measured: RowStatistics,
        rule: ScalingRule,
        shifts: Array | None = None,
    ) -> Array:
        """Sum ``ceil(|x' - x 2^s| 2^norm_bits)^2``: what `encode` rounds away.

        Largest exponents and squares of the whole rows choose s, by the rule of
        a system. The sums, (..., rows) int64, are exact, and 0 for rows that are not
        finite. Those of tiles add.
        """

    def octaves(self, x: Array, largest: Array, shifts: Array | None = None) -> Array:
        """Find how many octaves below the largest of its row each entry is.

        By the larger part of an entry: ``e - f``, where e is the largest exponent of
        the whole row and f the smallest with ``|part| < 2^f``. `statistics.FAR` for 63
        and more; `statistics.NONE` for zeros, and in rows without a finite nonzero
        entry. (..., rows, k) uint8.
        """

    def multiply_octaves(
        self, x: Array, y: Array, least: Array | None = None, enough: Any = None
    ) -> Array:
        """Multiply in the ring of (min, +): the least sum of octaves of all pairs.

        Of ``x[i, l] + y[j, l]``, and `statistics.NONE` where all are at least that:
        (m, n) uint8 of (m, k) and (n, k). Those of tiles combine by minimum. Below
        `statistics.FAR` it is that of a term with known octaves; else there is none.
        `least`: what was found of other tiles, which is returned as it has become.
        `enough`: int16 of rows and of columns, unless None. Where 8 times a sum is at
        most ``rows[i] + columns[j]``, it need not be the least.
        """


class HostAnalysis(NamedTuple):
    """An `Analysis` on the host: what is rarely asked for is found when it is."""

    engine: Any
    operands: Sequence[Array]
    norm_bits: int
    rule: ScalingRule | None
    shifts: Sequence[Array] | None
    found: list[RowStatistics]
    cosines: Array
    columns: Array | None

    def statistics(self) -> list[RowStatistics]:
        """Return what has been found."""
        return self.found

    def largest_errors(self, places: Array) -> Array:
        """Sum the errors of all rows of the matrices."""
        largest = np.zeros(len(places), np.int64)
        assert self.rule is not None
        for x, own, shifts in self._matrices(places):
            sums = self.engine.error_sums(x, own, self.rule, shifts)
            own_largest = sums.reshape(len(places), -1).max(axis=1, initial=0)
            np.maximum(largest, own_largest, out=largest)
        return largest

    def count_octaves(self, places: Array) -> list[RowStatistics]:
        """Count those of all rows of the matrices, unless they have been counted."""
        found = []
        for x, own, shifts in self._matrices(places):
            asked = own
            if own.octaves is None:
                asked = self.engine.measure(
                    x, self.norm_bits, ("octaves",), largest=own.largest, shifts=shifts
                )
            found.append(RowStatistics(own.largest, own.squares, octaves=asked.octaves))
        return found

    def _matrices(
        self, places: Array
    ) -> Iterator[tuple[Array, RowStatistics, Array | None]]:
        """List operands, statistics and shifts; all matrices without a copy."""
        every = self.shifts or [None] * len(self.operands)
        for x, own, shifts in zip(self.operands, self.found, every, strict=True):
            whole = x.ndim == 2 or len(places) == len(x)
            yield *((x, own) if whole else (x[places], own.take(places))), shifts
