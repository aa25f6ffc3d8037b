"""Findings of a look at the inputs, as bytes that a later run of the job reads.

They depend on the matrices alone, and not on the tiles.
"""

import io
import json
from typing import Any

import numpy as np

from ..kernels.statistics import RowStatistics
from ..moduli.system import make_system
from ..tiles.grid import Grid
from ..tiles.interpreter import Found, Line
from ..tiles.spec import SIDES, Spec

_FIELDS = "largest", "squares", "totals"


def pack(found: Found, spec: Spec) -> bytes:
    """Pack findings of a look that was asked for by a spec."""
    settled = found.spec
    about = settled.method, settled.moduli, settled.rho, settled.closed_by
    arrays: dict[str, Any] = {"about": json.dumps(about)}
    if found.shifts is not None:
        arrays["shifts"] = np.concatenate([*found.shifts])
    measured = found.measured or {}
    for side in spec.sides if measured else ():
        own = [measured[line] for line in sorted(measured) if line[0] == side]
        for name in _FIELDS:
            parts = [getattr(x, name) for x in own]
            if parts[0] is not None:
                arrays[f"{side}-{name}"] = np.concatenate(parts)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def unpack(data: bytes, spec: Spec, grid: Grid) -> Found | None:
    """Return findings for a grid; None where the bytes are damaged."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            arrays = dict(stored)
        method, moduli, rho, closed_by = json.loads(str(arrays["about"]))
    # What zip, zlib and JSON raise is of many kinds.
    except Exception:
        return None
    if spec.by_entries:
        choice = tuple((p, kind) for p, kind in moduli)
        system = make_system(method, choice) if choice else None
        spec = spec.settle(system, rho, closed_by)
    shifts: Any = arrays.get("shifts")
    measured: dict[Line, RowStatistics] = {}
    for side, sizes in zip(SIDES, (grid.m, grid.n), strict=True):
        if f"{side}-largest" not in arrays:
            continue
        parts = [_cut(arrays.get(f"{side}-{x}"), sizes) for x in _FIELDS]
        for i, values in enumerate(zip(*parts, strict=True)):
            measured[side, i] = RowStatistics(*values)
    shifts = None if shifts is None else _cut(shifts, grid.k)
    return Found(spec, shifts, measured or None)


def _cut(x: Any, sizes: tuple[int, ...]) -> list[Any]:
    """Cut what tiles of these sizes share; None for each if there is nothing."""
    if x is None:
        return [None] * len(sizes)
    return np.split(x, np.cumsum(sizes)[:-1])
