"""The few numbers that usually decide the moduli: three kernels, and one wait.

Launches are recorded once, as a script, because the host limited the analysis of small
matrices (1.2 ms of Python at any n up to 1024, an H100).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np

from ...moduli import ScalingRule
from ...typing import Array
from ..statistics import COUNTED, RowStatistics
from .device import CudaDevice
from .launch import Parts, as_stack, remember
from .rows import FILL, Side, find_errors, find_largest, find_statistics, pair
from .scripts import Scripts
from .tuning import Tuning, tuning_for


class _Arrays(NamedTuple):
    """The arrays of one allocation.

    `rows`: largest exponents, sums and counts of each operand in turn.
    """

    ends: Sequence[Array]
    rows: Sequence[Array]
    done: Array
    extremes: Sequence[Array]

    @classmethod
    def sort(cls, arrays: Sequence[Array], count: int, sides: int) -> Self:
        """Sort the arrays of `_parts`, `count` of which are fetched."""
        last = count + 3 * sides
        done, *extremes = arrays[last:]
        return cls(arrays[:count], arrays[count:last], done, extremes)


@dataclass(frozen=True)
class CudaAnalysis:
    """An `Analysis` of which the host has the few numbers alone.

    `counted`: the rows of `_Arrays`, fetched if they were expected to be asked for;
    `arrays` returns what is on the device.
    """

    cosines: Array
    columns: Array | None
    errors: Array | None
    counted: Sequence[Array]
    device: CudaDevice
    arrays: Callable[[], _Arrays]

    def statistics(self) -> list[RowStatistics]:
        """Return what has been found of each operand."""
        found = self.arrays()
        both = zip(found.rows[::3], found.rows[1::3], strict=True)
        return [
            RowStatistics(largest, sums[0], sums[1], *found.extremes[i : i + 1])
            for i, (largest, sums) in enumerate(both)
        ]

    def largest_errors(self, places: Array) -> Array:
        """Return what has been fetched."""
        assert self.errors is not None
        return self.errors[places]

    def count_octaves(self, places: Array) -> list[RowStatistics]:
        """Return what has been counted, and the squares; by a wait if need be."""
        fetched = iter(self.counted or self.device.fetch(self.arrays().rows))
        found = []
        for largest, sums, counts in zip(fetched, fetched, fetched, strict=True):
            every = RowStatistics(largest, sums[0], octaves=counts)
            found.append(every if largest.ndim == 1 else every.take(places))
        return found


class CudaAnalyses:
    """Launches of analysis.cu, and the first one of norms.cu."""

    device: CudaDevice
    scripts: Scripts
    waits = True

    def variant(self) -> tuple[int, Tuning]:
        """Return the current device, and how it is tuned."""
        number = self.device.number()
        return number, tuning_for(self.device.capability(number))

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
    ) -> CudaAnalysis:
        """Find the numbers that decide by three launches and one wait."""
        (x, y), (e, f) = pair(map(as_stack, operands)), pair(shifts or ())
        parts = _parts(tuple(x.shape for x in operands), columns, rule is not None)
        count, sides = 1 + columns + (rule is not None), len(operands)

        def write(recorder: Any, x: Array, y: Array, e: Array, f: Array) -> None:
            found = _Arrays.sort(recorder.allocate(parts, FILL), count, sides)
            _launch(recorder, found, (x, y), (e, f), norm_bits, rule)

        device, (number, tuned) = self.device, self.variant()
        key, given = ("analyse", tuned, norm_bits, columns, rule), (x, y, e, f)
        slab = self.scripts.run(device, number, key, given, write)

        def arrays() -> _Arrays:
            return _Arrays.sort(device.split(slab, parts), count, sides)

        expected = arrays().rows if octaves else []
        ends = device.split(slab, parts[:count])
        cosines, *others = device.fetch([*ends, *expected], meanwhile)
        of_columns = others.pop(0) if columns else None
        errors = others.pop(0) if rule is not None else None
        return CudaAnalysis(cosines, of_columns, errors, others, device, arrays)


@remember
def _parts(shapes: tuple[tuple[int, ...], ...], columns: bool, decides: bool) -> Parts:
    """List what one allocation holds: first what is fetched, then what may be.

    `decides`: whether there is a rule, by which moduli may be chosen.
    """
    count, sides = prod(shapes[0][:-2]), len(shapes)
    parts: list[Any] = [((sides, count), np.float64)]
    parts += [((3, count), np.int64)] * columns + [((count,), np.int64)] * decides
    for rows in (shape[:-1] for shape in shapes):
        parts += [(rows, np.int32), ((2 + decides, *rows), np.int64)]
        parts += [((*rows, len(COUNTED)), np.int32)]
    parts += [((2, count), np.uint32)]
    if columns:
        parts += [((*x[:-2], 3, x[-1]), np.int32) for x in shapes]
    return tuple(parts)


def _launch(
    device: Any,
    found: _Arrays,
    operands: Sequence[Array],
    shifts: Sequence[Array | None],
    norm_bits: int,
    rule: ScalingRule | None,
) -> None:
    largest, sums, counts = (found.rows[i::3] for i in range(3))
    sides = [*map(Side, operands, shifts, largest, sums, counts)]
    find_largest(device, sides)
    looked = [
        s._replace(sums=own[:2], extremes=x)
        for s, own, x in zip_longest(sides, sums, found.extremes)
    ]
    columns = found.ends[1] if found.extremes else None
    find_statistics(device, looked, norm_bits, (found.done[0], found.ends[0], columns))
    if rule is None:
        return
    squares, errors = ([x[i] for x in sums] for i in (0, 2))
    find_errors(device, sides, squares, rule, errors, (found.done[1], found.ends[-1]))
