"""Storing small matrices in every format, for tests."""

import os
import shutil
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import h5py
import numpy as np
import zarr

from twom_dist.store import find_unfinished, open_matrix

NAMES = ["C.zarr", "C.npy", "C.npz", "C.h5", "C.hdf5"]
MEMBER_NAMES = ["C.zarr::g/C", "C.npz::C", "C.h5::g/C"]


def make_matrix(shape=(5, 7), dtype="c16"):
    bits = np.random.default_rng(7).integers(0, 256, (*shape, 16), dtype=np.uint8)
    if dtype == "?":
        return bits[..., 0] > 127
    size = np.dtype(dtype).itemsize
    return np.ascontiguousarray(bits[..., :size]).view(dtype)[..., 0]


def assert_same_bits(found, expected):
    """Compare dtype, shape and every bit with what was stored."""
    assert type(found) is np.ndarray
    assert found.dtype == expected.dtype.newbyteorder("=")
    assert found.dtype.isnative
    assert found.shape == expected.shape
    assert found.tobytes() == expected.astype(found.dtype).tobytes()


def save(path, values, tile=(2, 3)):
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
            chunks = tile if values.size and values.ndim == len(tile) else None
            file.create_dataset(member or "matrix", data=values, chunks=chunks)


def disguise(path):
    """Put a file of other bytes in the place of one, of its size and time."""
    old, new = os.stat(path), Path("disguised")
    while True:
        shutil.copyfile(path, new)
        with new.open("r+b") as stream:
            stream.seek(-1, os.SEEK_END)
            last = stream.read(1)[0]
            stream.seek(-1, os.SEEK_END)
            stream.write(bytes([last ^ 1]))
        # The clock of a file system may stand for some ms.
        if new.stat().st_ctime_ns != old.st_ctime_ns:
            break
    os.utime(new, ns=(old.st_atime_ns, old.st_mtime_ns))
    os.replace(new, path)


@contextmanager
def begun(path, values, *, overwrite=False):
    """Write all tiles of an output, of 2 x 3, which has not got its name."""
    place = find_unfinished(path)
    place.check(overwrite)
    output = place.output(values.shape, (2, 3), values.dtype)
    with place.lock():
        place.start(output, {})
        (m, n), (mb, nb) = output.shape, output.tile
        for i, j in product(range(-(-m // mb)), range(-(-n // nb))):
            # In the order of columns, as LAPACK returns them.
            output.write(i, j, np.asfortranarray(values[output.region(i, j)]))
        yield place, output


def write_output(path, values, *, overwrite=False):
    with begun(path, values, overwrite=overwrite) as (place, output):
        place.finish(output, overwrite)


def everything(path):
    return open_matrix(path)[:, :]


def left_behind(folder="."):
    return sorted(path.name for path in Path(folder).glob(".*"))
