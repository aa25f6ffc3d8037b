"""The check of products_tile.py: whether the driver compiles it, and rightly."""

from typing import Any

import numpy as np

from ...moduli import residue_system, symmetric_residue
from ...typing import Array
from .cublas import ALIGNMENT, LARGEST_K, align
from .hopper import LINE, ROW_GROUP
from .products import SQUARES, launch_tiles
from .tables import requantise_table
from .tuning import tuning_for

# That of CUDA 13.3, the first to compile Tile IR for every GPU.
_OLDEST_DRIVER = 13030
# Ragged and of several squares; and with sums as large as any.
_SHAPES = (300, 400, 1000), (20, 40, LARGEST_K)
_JOBS = np.array([(1, 1, 1, 1), (0, 0, 0, 0)], np.int32)
_found: dict[int, str | None] = {}  # by compute capability


def explain_no_tiles(device: Any) -> str | None:
    """Tell why cuBLAS multiplies instead; None if it need not, or never would.

    Each kind of chip is checked once.
    """
    capability = device.capability()
    if "tile" not in tuning_for(capability).products:
        return None
    if capability not in _found:
        _found[capability] = _find_failure(device)
    return _found[capability]


def _find_failure(device: Any) -> str | None:
    driver = device.driver()
    if driver < _OLDEST_DRIVER:
        newest = f"{driver // 1000}.{driver % 1000 // 10}"
        return f"the driver knows CUDA {newest}, and Tile IR needs 13.3"
    try:
        wrong = sum(_count_wrong(device, *shape) for shape in _SHAPES)
    except RuntimeError as error:  # what CUDA raises is one
        return " ".join(str(error).split())
    return f"{wrong} residues are wrong" if wrong else None


def _count_wrong(device: Any, m: int, n: int, k: int) -> int:
    """Multiply random planes, and the least bytes, and add residues."""
    system, width, wrong = residue_system("real", 2), align(n, ALIGNMENT), 0
    x, y = (_draw(align(rows, ROW_GROUP), align(k, LINE)) for rows in (m, n))
    before = _draw(m, width)
    sums = x[:, :m].astype(float) @ y[:, :width].astype(float).swapaxes(1, 2)
    for squares in SQUARES["tile"]:
        left, right, old = (device.send(t) for t in (x, y, before))
        out, table = device.empty(before.shape, np.int8), requantise_table(system)
        given = left, right, _JOBS, table, (m, n), out, old
        launch_tiles(device, squares, *given, "full", 1)
        (found,) = device.fetch([out])
        for q, product in enumerate(system.products):
            exact = (sums[q] + before[q]).astype(np.int64)
            expected: Array = symmetric_residue(exact, product.p)
            wrong += int(np.count_nonzero(found[q] != expected))
    return wrong


def _draw(rows: int, columns: int) -> Array:
    x = np.random.default_rng(rows).integers(-128, 128, (2, rows, columns), np.int8)
    x[:, 0] = -128
    return x
