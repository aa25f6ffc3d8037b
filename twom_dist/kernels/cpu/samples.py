"""Magnitudes of entries: what says how many moduli the data take."""

from collections.abc import Sequence

import numpy as np

from ...moduli import NONFINITE_ROW
from ...typing import Array
from ..operands import Sample
from . import norms
from .decode import as_parts
from .layout import read_only, straighten
from .threads import ranges, run_each


def magnitudes(samples: Sequence[Sample]) -> list[Array]:
    """Round the magnitudes of entries, relative to their rows, to 8 bits."""
    return [
        _magnitudes(x[rows], largest[rows], shifts)
        for x, largest, rows, shifts in samples
    ]


def _magnitudes(x: Array, largest: Array, shifts: Array | None) -> Array:
    one, two = norms.power_factors(
        np.where(norms.is_sentinel(largest), NONFINITE_ROW, -largest)
    )
    source, across = straighten(x)
    parts = read_only(as_parts(source))
    columns = norms.column_factors(
        np.zeros(x.shape[1], int) if shifts is None else shifts
    )
    out = np.empty(source.shape, np.float32)
    run_each(
        lambda r: norms.relative_magnitudes(parts, across, columns, one, two, *r, out),
        ranges(len(out), smallest=16, each=4 * out.shape[1]),
    )
    found = (out.view(np.uint32) >> 16).astype(np.uint16)
    return found.T if across else found
