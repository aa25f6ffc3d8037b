"""Sums of the residues of two parts along k."""

import numpy as np

from ....moduli import ResidueSystem
from ....typing import Array
from ..buffers import empty
from ..compiled import kernel
from ..threads import ranges, run_each
from .modular import LONG, SHORT, add_long, add_short


@kernel
def _add_bytes(x, y, p, lo, hi, out):  # type: ignore[no-untyped-def]
    """out[lo:hi] = x + y modulo p; SHORT divides both ends."""
    long = (hi - lo) // LONG
    given = x.ctypes.data + lo, y.ctypes.data + lo, out.ctypes.data + lo
    if long > 0:
        add_long(given[0], given[1], given[2], long, p)
    done = long * LONG
    if done < hi - lo:
        rest = (hi - lo - done) // SHORT
        add_short(given[0] + done, given[1] + done, given[2] + done, rest, p)


def add_residues(x: Array, y: Array, system: ResidueSystem) -> Array:
    """Add products modulo p, each in ranges of lines side by side."""
    out = empty(x.shape, np.int8)
    lines = x[0].size // SHORT
    flat = [np.ascontiguousarray(t).reshape(len(t), -1) for t in (x, y)]
    whole = out.reshape(len(out), -1)
    pieces = [
        (q, *piece)
        for q in range(len(out))
        # A line takes a nanosecond.
        for piece in ranges(lines, each=1)
    ]
    moduli = [product.p for product in system.products]

    def add(piece: tuple[int, int, int]) -> None:
        q, lo, hi = piece
        given = (t[q] for t in flat)
        _add_bytes(*given, moduli[q], lo * SHORT, hi * SHORT, whole[q])

    run_each(add, pieces)
    return out
