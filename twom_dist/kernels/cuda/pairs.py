"""The largest bound of all pairs of rows of two small matrices: a script, and one wait.

Everything that `tiles.look.every_pair` does by stages, which are for any size: some 20
launches and five waits, 2.4 ms at n = 512 and 2.2 at 1024 (an H100).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...typing import Array
from ..stack_summary import MAGNITUDE_MARGIN
from . import norms
from .launch import Device, Parts, remember, size_args
from .scripts import Recorder, Scripts, outline_all
from .sources import module_for

_SIDE = 64  # of the squares of pairs that a block takes
# Terms of all squares: at the limit, n = 2048, a product takes 2.7 ms, by stages 4.3
# (an H100). And the longest rows, along which a block walks alone: 64 x 8192 x 64
# takes 1.7 ms longer (gpu-open-pairs.jsonl).
_MOST, _LONGEST = 2**33, 2**13


def find_largest_ratio(
    device: Device,
    scripts: Scripts,
    variant: Any,
    operands: Sequence[Array],
    rows: Sequence[tuple[Array, Array]],
    norm_bits: int,
    limit: float,
    bits: int,
) -> float | None:
    """Return the largest bound of rho^2 above a limit, 0 without any; see `Weighed`.

    `rows`: largest exponents, and squares and totals, of the rows of each operand.
    """
    k = operands[0].shape[1]
    if _count_squares(operands) * _SIDE**2 * k > _MOST or k > _LONGEST:
        return None
    given = dict(zip("xy", operands, strict=False))
    for name, (largest, sums) in zip("xy", rows, strict=False):
        given |= {f"exponents of {name}": largest, f"sums of {name}": sums}
    parts = _parts(tuple(x.shape for x in operands))
    numbers = norm_bits, limit, bits
    key = "pairs", variant, outline_all(operands), numbers
    script = scripts.get(key)
    if script is None:
        recorder = Recorder(device, given)
        ends, *magnitudes = recorder.filled_together(parts, 0)
        _launch(recorder, operands, rows, magnitudes, ends, *numbers)
        scripts.keep(key, recorder.script)
    else:
        (ends,) = device.split(script.run(device, given), parts[:1])
    return float(device.fetch([ends])[0].view(np.float64)[0])


@remember
def _parts(shapes: tuple[tuple[int, int], ...]) -> Parts:
    """List what one allocation holds, first what is fetched."""
    return ((1,), np.uint64), *((shape, np.uint16) for shape in shapes)


def _launch(
    device: Any,
    operands: Sequence[Array],
    rows: Sequence[tuple[Array, Array]],
    magnitudes: Sequence[Array],
    largest: Array,
    norm_bits: int,
    limit: float,
    bits: int,
) -> None:
    sides: list[Any] = []
    for x, (exponents, sums), out in zip(operands, rows, magnitudes, strict=True):
        norms.write_magnitudes(device, x, exponents, None, out)
        sides.append((out, sums, *size_args(len(x))))
    # As `find_open` asks of two digits.
    factor = limit * 2.0**-38 / (1 + MAGNITUDE_MARGIN)
    units = (2.0 ** (-2 * t) for t in (norm_bits, bits))
    args = *sides[0], *sides[-1], *size_args(operands[0].shape[1])
    args += np.int32(len(sides) == 1), np.int32(bits)
    args += (*map(np.float64, (limit, factor, *units)), largest)
    grid = _count_squares(operands), 1, 1
    device.launch(module_for("pairs"), "bound_all", grid, (256, 1, 1), args)


def _count_squares(operands: Sequence[Array]) -> int:
    return -(-len(operands[0]) // _SIDE) * -(-len(operands[-1]) // _SIDE)
