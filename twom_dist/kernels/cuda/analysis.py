"""The few numbers that mostly decide about products: three kernels, and one wait.

Launches are written once, as a script: the host, not the device, was what the look at
small matrices waited for (1.2 ms of Python at any n up to 1024, an H100).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from typing import Any

import numpy as np

from ...moduli import ScalingRule
from ...typing import Array
from ..octaves import COUNTED
from ..statistics import RowStatistics
from .device import CudaDevice
from .launch import BLOCK, Parts, count_matrices, listed, remember
from .norms import (
    FILL,
    Side,
    find_largest,
    find_statistics,
    list_operands,
    module_of,
    pair,
    rule_args,
)
from .scripts import Scripts


@dataclass(frozen=True)
class CudaAnalysis:
    """An `Analysis` of which the host has the few numbers alone.

    Attributes
    ----------
    cosines : (sides, count) float64
    columns : (3, count) int64, or None
    errors : (count,) int64, or None
    counted : sequence of array
        `_Arrays.counted`, on the host, if they were expected to be asked for.
    device : Device
    arrays : callable
        Returns the arrays of `_parts`, on the device.
    """

    cosines: Array
    columns: Array | None
    errors: Array | None
    counted: Sequence[Array]
    device: CudaDevice
    arrays: Callable[[], "_Arrays"]

    def statistics(self) -> list[RowStatistics]:
        """Return those of each operand."""
        return self.arrays().statistics()

    def largest_errors(self, places: Array) -> Array:
        """Return what has been fetched."""
        assert self.errors is not None
        return self.errors[places]

    def count_octaves(self, places: Array) -> list[RowStatistics]:
        """Return what has been counted, and the squares; by a wait if need be."""
        fetched = iter(self.counted or self.device.fetch(self.arrays().counted()))
        found = []
        for largest, sums, counts in zip(fetched, fetched, fetched, strict=True):
            every = RowStatistics(largest, sums[0], octaves=counts)
            found.append(every if largest.ndim == 1 else every.take(places))
        return found


@dataclass(frozen=True)
class _Arrays:
    """The arrays of one allocation, by what they hold."""

    ends: Sequence[Array]
    sums: Sequence[Array]
    counts: Sequence[Array]
    done: Array
    largest: Sequence[Array]
    extremes: Sequence[Array]

    def counted(self) -> list[Array]:
        """List exponents, sums and counts of each operand in turn."""
        own = zip(self.largest, self.sums, self.counts, strict=True)
        return [x for side in own for x in side]

    def statistics(self) -> list[RowStatistics]:
        """Return what has been found of each operand."""
        return [
            RowStatistics(e, sums[0], sums[1], *self.extremes[i : i + 1])
            for i, (e, sums) in enumerate(zip(self.largest, self.sums, strict=True))
        ]


def analyse(
    device: CudaDevice,
    scripts: Scripts,
    variant: Any,
    operands: Sequence[Array],
    norm_bits: int,
    columns: bool,
    rule: ScalingRule | None,
    octaves: bool,
    shifts: Sequence[Array] | None,
    meanwhile: Callable[[], object] | None,
) -> CudaAnalysis:
    """Launch all stages, and fetch what they end with; see `Analyses.analyse`."""
    (x, y), (e, f) = pair(map(listed, operands)), pair(shifts or ())
    parts = _parts(tuple(x.shape for x in operands), columns, rule is not None)
    count, sides = 1 + columns + (rule is not None), len(operands)

    def write(recorder: Any, x: Array, y: Array, e: Array, f: Array) -> None:
        found = _sort(recorder.filled_together(parts, FILL), count, sides)
        _launch(recorder, found, (x, y), (e, f), norm_bits, rule)

    key = "analyse", variant, norm_bits, columns, rule
    slab = scripts.run(device, key, {"x": x, "y": y, "e": e, "f": f}, write)

    def arrays() -> _Arrays:
        return _sort(device.split(slab, parts), count, sides)

    expected = arrays().counted() if octaves else []
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
    parts += [((2 + decides, *shape[:-1]), np.int64) for shape in shapes]
    parts += [((*shape[:-1], len(COUNTED)), np.int32) for shape in shapes]
    parts += [((2, count), np.uint32)]
    parts += [(shape[:-1], np.int32) for shape in shapes]
    if columns:
        parts += [((*x[:-2], 3, x[-1]), np.int32) for x in shapes]
    return tuple(parts)


def _sort(arrays: Sequence[Array], count: int, sides: int) -> _Arrays:
    """Sort the arrays of `_parts`, `count` of which are fetched."""
    sums, counts, rest = count, count + sides, count + 2 * sides
    largest = rest + 1, rest + 1 + sides
    return _Arrays(
        arrays[:count],
        arrays[sums:counts],
        arrays[counts:rest],
        arrays[rest],
        arrays[slice(*largest)],
        arrays[largest[1] :],
    )


def _launch(
    device: Any,
    found: _Arrays,
    operands: Sequence[Array],
    shifts: Sequence[Array | None],
    norm_bits: int,
    rule: ScalingRule | None,
) -> None:
    given = found.largest, found.sums, found.counts
    sides = [Side(*x) for x in zip(operands, shifts, *given, strict=False)]
    find_largest(device, sides)
    looked = [
        s._replace(sums=sums[:2], extremes=x)
        for s, sums, x in zip_longest(sides, found.sums, found.extremes)
    ]
    columns = found.ends[1] if found.extremes else None
    find_statistics(device, looked, norm_bits, (found.done[0], found.ends[0], columns))
    if rule is None:
        return
    blocks, both = list_operands(sides)
    squares, errors = ([x[i] for x in found.sums] for i in (0, 2))
    args = (
        *(*both, pair(shifts), pair(found.largest), pair(squares), rule_args(rule)),
        *(2.0**norm_bits, pair(errors), found.done[1], found.ends[-1]),
    )
    grid = blocks, 1, count_matrices(operands[0])
    device.launch(module_of("analysis", sides), "find_errors", grid, BLOCK, args)
