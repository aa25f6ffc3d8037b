"""The analysis of engines on the host: what is rarely asked for is found when it is."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..moduli import ScalingRule
from ..typing import Array
from .statistics import RowStatistics


class HostAnalysis(NamedTuple):
    """An `Analysis` of NumPy arrays, by the stages of an engine.

    Attributes
    ----------
    engine : Engine
    operands : sequence of (..., rows, k)
    norm_bits : int
    rule : ScalingRule, or None
    shifts : sequence of (k,) int32, or None
    found : list of RowStatistics
    cosines : (sides, count) float64
    columns : (3, count) int64, or None
    """

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
            e = self.engine.choose_exponents(*own.scales(), self.rule)
            sums = self.engine.error_sums(x, e, self.norm_bits, shifts)
            own_largest = sums.reshape(len(places), -1).max(axis=1, initial=0)
            np.maximum(largest, own_largest, out=largest)
        return largest

    def count_octaves(self, places: Array) -> list[RowStatistics]:
        """Count those of all rows of the matrices."""
        return [
            self.engine.measure(
                x, self.norm_bits, ("octaves",), largest=own.largest, shifts=shifts
            )._replace(squares=own.squares)
            for x, own, shifts in self._matrices(places)
        ]

    def _matrices(
        self, places: Array
    ) -> Iterator[tuple[Array, RowStatistics, Array | None]]:
        """List operands, statistics and shifts; all matrices without a copy."""
        every = self.shifts or [None] * len(self.operands)
        for x, own, shifts in zip(self.operands, self.found, every, strict=True):
            whole = x.ndim == 2 or len(places) == len(x)
            yield *((x, own) if whole else (x[places], own.take(places))), shifts
