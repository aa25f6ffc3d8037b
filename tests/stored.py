"""Storing small matrices in every format, for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import h5py
import numpy as np
import zarr

from twom_dist.store import Output, Unfinished, find_unfinished, open_matrix

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


def save(path: Path | str, values: np.ndarray, tile: tuple[int, int] = (2, 3)) -> None:
    """Store a matrix as its users do, in chunks where the format has any."""
    place, _, member = str(path).partition("::")
    suffix = Path(place).suffix.lower()
    if suffix == ".npy":
        np.save(place, values)
    elif suffix == ".npz":
        with open(place, "wb") as stream:
            np.savez(stream, **{member or "matrix": values})
    elif suffix == ".zarr":
        options = {"chunks": tile, "compressors": None}
        zarr.create_array(Path(place), name=member or None, data=values, **options)
    else:
        with h5py.File(place, "w") as file:
            chunks = tile if values.size and values.ndim == 2 else None
            file.create_dataset(member or "matrix", data=values, chunks=chunks)


@contextmanager
def begun(
    path: Path | str, values: np.ndarray, *, overwrite: bool = False
) -> Iterator[tuple[Unfinished, Output]]:
    """Write all tiles of an output, of 2 x 3, which has not got its name."""
    place = find_unfinished(path)
    place.check(overwrite)
    output = place.output(values.shape, (2, 3), values.dtype)
    with place.lock():
        place.start(output, {}, overwrite=True)
        write_tiles(output, values)
        yield place, output


def write_output(path: Path | str, values: np.ndarray, *, overwrite=False) -> None:
    """Write an output in tiles of 2 x 3, and give it its name."""
    with begun(path, values, overwrite=overwrite) as (place, output):
        place.finish(output, overwrite)


def write_tiles(output: Output, values: np.ndarray) -> None:
    """Write a matrix tile by tile, in the order of columns that LAPACK returns."""
    (m, n), (mb, nb) = output.shape, output.tile
    for i, j in product(range(-(-m // mb)), range(-(-n // nb))):
        output.write(i, j, np.asfortranarray(values[output.region(i, j)]))


def everything(path: Path | str) -> np.ndarray:
    """Read a whole matrix."""
    return open_matrix(path)[:, :]


def left_behind(folder: Path) -> list[str]:
    """List the hidden files of a folder."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))
