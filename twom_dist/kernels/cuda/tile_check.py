"""The check of products_tile.py: whether the driver compiles it, and rightly."""

from typing import Any

import numpy as np

from ...errors import MemoryLimitError
from ...moduli import residue_system, symmetric_residue
from .cublas import LARGEST_K
from .products import SQUARES, Multiplication, launch_tiles
from .tables import requantise_table
from .tuning import TILES, Products, tuning_for

# That of CUDA 13.3, the first to compile Tile IR for every GPU.
_OLDEST_DRIVER = 13030
# Ragged and of several squares; and with sums as large as any. Sides of planes.
_SHAPES = ((300, 320), (400, 448), 1024), ((20, 64), (48, 64), LARGEST_K)
_JOBS = np.array([(1, 1, 1, 1), (0, 0, 0, 0)], np.int32)
_found: dict[int, str | None] = {}  # by compute capability


def explain_no_tiles(device: Any) -> str | None:
    """Tell why cuBLAS multiplies instead; None if it need not, or never would.

    Each kind of chip is checked once.
    """
    capability = device.capability()
    name, *_ = *tuning_for(capability).products, "mma"
    if name not in TILES:
        return None
    if (driver := device.driver()) < _OLDEST_DRIVER:
        newest = f"{driver // 1000}.{driver % 1000 // 10}"
        return f"the driver knows CUDA {newest}, and Tile IR needs 13.3"
    if capability not in _found:
        try:
            wrong = sum(_count_wrong(device, name, *shape) for shape in _SHAPES)
            told = f"{wrong} residues are wrong" if wrong else None
        except (RuntimeError, MemoryError, MemoryLimitError, OSError) as error:
            # CUDA's errors, a device that is full, a file that is missing.
            told = " ".join(str(error).split())
        _found[capability] = told
    return _found[capability]


def _count_wrong(
    device: Any,
    name: Products,
    rows: tuple[int, int],
    columns: tuple[int, int],
    k: int,
) -> int:
    """Multiply random bytes, and rows of the least, and add others."""
    (m, high), (n, wide), rng, wrong = rows, columns, np.random.default_rng(0), 0
    sizes = (2, high, k), (2, wide, k), (2, m, n)
    x, y, old = (rng.integers(-128, 128, size, np.int8) for size in sizes)
    x[:, 0] = y[:, 0] = old[:, 0] = -128
    system = residue_system("real", 2)
    sums = x[:, :m].astype(float) @ y[:, :n].astype(float).swapaxes(1, 2) + old
    for squares in SQUARES[name]:
        left, right, before = (device.send(t) for t in (x, y, old))
        out, table = device.empty(old.shape, np.int8), requantise_table(system)
        given = left, right, _JOBS, table, (m, n), out, before
        launch_tiles(device, squares, Multiplication(*given))
        (found,) = device.fetch([out])
        for own, exact, product in zip(found, sums, system.products, strict=True):
            expected: Any = symmetric_residue(exact.astype(np.int64), product.p)
            wrong += int(np.count_nonzero(own != expected))
    return wrong
