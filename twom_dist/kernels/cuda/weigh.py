"""The few numbers that mostly decide about a product: five launches, and one wait.

Launches are written once, as a script: the host, not the device, was what the look at
small matrices waited for (1.2 ms of Python at any n up to 1024, an H100).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...moduli import ScalingRule
from ...typing import Array
from ..survey import Summary, Surveyed, Weighed
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
    parts = _parts(shapes, columns, rule is not None)
    options = norm_bits, columns, rule
    key = "weigh", variant, outline_all(operands), options
    script = scripts.get(key)
    if script is None:
        recorder = Recorder(device, given)
        arrays = recorder.filled_together(parts, norms.FILL)
        _launch(recorder, operands, arrays, norm_bits, columns, rule)
        scripts.keep(key, recorder.script)
        slab, ends = None, arrays[: _count_numbers(columns, rule)]
    else:
        slab = script.run(device, given)
        ends = device.split(slab, parts[: _count_numbers(columns, rule)])

    def surveyed() -> list[Surveyed]:
        own = arrays if slab is None else device.split(slab, parts)
        return _list_surveyed(own, len(operands), columns, rule)

    cosines, *others = device.fetch(ends, meanwhile)
    of_columns = others.pop(0) if columns else None
    return Weighed(
        Summary(cosines, of_columns), others.pop() if others else None, surveyed
    )


def _count_numbers(columns: bool, rule: ScalingRule | None) -> int:
    return 1 + columns + (rule is not None)


@remember
def _parts(shapes: tuple[tuple[int, int], ...], columns: bool, errors: bool) -> Parts:
    """List what one allocation holds, first what is fetched."""
    parts: list[Any] = [((len(shapes), 1), np.float64)]
    parts += [((3, 1), np.int64)] * columns + [((1,), np.int64)] * errors
    parts += [((rows,), np.int32) for rows, _ in shapes]
    parts += [((2 + errors, rows), np.int64) for rows, _ in shapes]
    parts += [((3, k), np.int32) for _, k in shapes] if columns else []
    return tuple(parts)


def _list_surveyed(
    arrays: Sequence[Array], sides: int, columns: bool, rule: ScalingRule | None
) -> list[Surveyed]:
    own = arrays[_count_numbers(columns, rule) :]
    largest, sums, extremes = (own[i : i + sides] for i in range(0, 3 * sides, sides))
    return [
        Surveyed(largest[i], sums[i][0], sums[i][1], *extremes[i : i + 1])
        for i in range(sides)
    ]


def _launch(
    device: Any,
    operands: Sequence[Array],
    arrays: Sequence[Array],
    norm_bits: int,
    columns: bool,
    rule: ScalingRule | None,
) -> None:
    sides, errors = len(operands), rule is not None
    ends, own = arrays[: 1 + columns + errors], arrays[1 + columns + errors :]
    largest, sums, extremes = (own[i : i + sides] for i in range(0, 3 * sides, sides))
    given = device, operands, (), largest
    norms.find_largest(*given, sums)
    norms.sum_and_look(*given, norm_bits, [x[:2] for x in sums], extremes)
    found = _list_surveyed(arrays, sides, columns, rule)
    stack_summary.launch(
        device, found, operands[0].shape[1], ends[0], *ends[1 : 1 + columns]
    )
    if rule is not None:
        known = [(x.largest_exponents, x.squares) for x in found]
        of_rows = [x[2] for x in sums]
        norms.add_errors(device, operands, norm_bits, of_rows, known=known, rule=rule)
        stack_summary.find_largest_sum(device, of_rows, ends[-1])
