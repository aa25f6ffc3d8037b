"""Storing small matrices in every format, for tests."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from twom_dist.store import MatrixWriter, create_matrix, open_matrix

NAMES = ["C.zarr", "C.npy", "C.npz", "C.h5", "C.hdf5"]


def make_matrix(shape: tuple[int, int] = (5, 7), dtype: str = "c16") -> np.ndarray:
    """Make a matrix of random bits."""
    bits = np.random.default_rng(7).integers(0, 256, (*shape, 16), dtype=np.uint8)
    if dtype == "?":
        return bits[..., 0] > 127
    size = np.dtype(dtype).itemsize
    return np.ascontiguousarray(bits[..., :size]).view(dtype)[..., 0]


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    """Compare dtype, shape and every bit with what was stored."""
    assert type(found) is np.ndarray
    assert found.dtype == expected.dtype.newbyteorder("=")
    assert found.dtype.isnative
    assert found.shape == expected.shape
    assert found.tobytes() == expected.astype(found.dtype).tobytes()


def tiles(shape: tuple[int, int], tile: tuple[int, int]) -> list[tuple[slice, slice]]:
    """List the regions of all tiles."""
    starts = (range(0, n, b) for n, b in zip(shape, tile, strict=True))
    return [
        (slice(i, min(i + tile[0], shape[0])), slice(j, min(j + tile[1], shape[1])))
        for i, j in product(*starts)
    ]


def write_tiles(writer: MatrixWriter, values: np.ndarray) -> None:
    """Write a matrix tile by tile."""
    for region in tiles(writer.shape, writer.tile):
        writer[region] = values[region]


def save(path: Path | str, values: np.ndarray, **options: Any) -> None:
    """Store a matrix in tiles of 2 x 3."""
    with create_matrix(path, values.shape, values.dtype, (2, 3), **options) as writer:
        write_tiles(writer, values)


def everything(path: Path | str) -> np.ndarray:
    """Read a whole matrix."""
    return open_matrix(path)[:, :]


def left_behind(folder: Path) -> list[str]:
    """List the hidden files of a folder."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))
