"""The few numbers that mostly decide about a product: five kernels, and one wait.

Launches are written once, as a script: the host, not the device, was what the look at
small matrices waited for (1.2 ms of Python at any n up to 1024, an H100).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...moduli import ScalingRule
from ...typing import Array
from ..survey import Surveyed, Weighed
from . import norms, stack_summary
from .launch import Device, Parts, remember
from .scripts import Recorder, Scripts, outline_all


def weigh(
    device: Device,
    scripts: Scripts,
    variant: Any,
    operands: Sequence[Array],
    norm_bits: int,
    columns: bool,
    rule: ScalingRule | None,
    meanwhile: Callable[[], object] | None,
) -> Weighed:
    """Launch all stages, and fetch what they end with; see `kernels.survey.Weigh`."""
    given = dict(zip("xy", operands, strict=False))
    shapes = tuple(x.shape for x in operands)
    parts, sides = _parts(shapes, columns, rule is not None), len(operands)
    count = 1 + columns + (rule is not None)
    options = norm_bits, columns, rule
    key = "weigh", variant, outline_all(operands), options
    script = scripts.get(key)
    if script is None:
        recorder = Recorder(device, given)
        arrays = recorder.filled_together(parts, norms.FILL)
        _launch(recorder, operands, _Found.of(arrays, count, sides), norm_bits, rule)
        scripts.keep(key, recorder.script)
        slab, ends = None, arrays[:count]
    else:
        slab = script.run(device, given)
        ends = device.split(slab, parts[:count])

    def found() -> _Found:
        own = arrays if slab is None else device.split(slab, parts)
        return _Found.of(own, count, sides)

    cosines, *others = device.fetch(ends, meanwhile)
    of_columns = others.pop(0)[:, 0].tolist() if columns else None
    both = float(cosines[0, 0]), float(cosines[-1, 0])
    return Weighed(
        both,
        of_columns,
        lambda: float(others[0][0]),
        lambda: found().surveyed(),
    )


@remember
def _parts(shapes: tuple[tuple[int, int], ...], columns: bool, errors: bool) -> Parts:
    """List what one allocation holds, first what is fetched."""
    parts: list[Any] = [((len(shapes), 1), np.float64)]
    parts += [((3, 1), np.int64)] * columns + [((1,), np.int64)] * errors
    parts += [((rows,), np.int32) for rows, _ in shapes]
    parts += [((2 + errors, rows), np.int64) for rows, _ in shapes]
    parts += [((3, k), np.int32) for _, k in shapes] if columns else []
    return tuple(parts)


class _Found(NamedTuple):
    """The arrays of one allocation, by what they hold."""

    ends: Sequence[Array]
    largest: Sequence[Array]
    sums: Sequence[Array]
    extremes: Sequence[Array]

    @classmethod
    def of(cls, arrays: Sequence[Array], count: int, sides: int) -> "_Found":
        """Sort arrays, `count` of which are fetched."""
        own = [arrays[i : i + sides] for i in range(count, count + 3 * sides, sides)]
        return cls(arrays[:count], *own)

    def rows(self) -> list[tuple[Array, Array]]:
        """Return the exponents and the sums of the rows of each operand."""
        return [*zip(self.largest, self.sums, strict=True)]

    def surveyed(self) -> list[Surveyed]:
        """Return what has been found of each operand."""
        return [
            Surveyed(e, sums[0], sums[1], *self.extremes[i : i + 1])
            for i, (e, sums) in enumerate(self.rows())
        ]


def _launch(
    device: Any,
    operands: Sequence[Array],
    found: _Found,
    norm_bits: int,
    rule: ScalingRule | None,
) -> None:
    given = device, operands, (), found.largest
    norms.find_largest(*given, found.sums)
    sums = [x[:2] for x in found.sums]
    norms.sum_and_look(*given, norm_bits, sums, found.extremes)
    each, columns = found.surveyed(), len(found.extremes) > 0
    ends = found.ends[: 1 + columns]
    stack_summary.launch(device, each, operands[0].shape[1], *ends)
    if rule is not None:
        known = [(x.largest_exponents, x.squares) for x in each]
        errors = [x[2] for x in found.sums]
        norms.add_errors(device, operands, norm_bits, errors, known=known, rule=rule)
        stack_summary.find_largest_sum(device, errors, found.ends[-1])
