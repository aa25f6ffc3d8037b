"""HDF5 files, opened anew for every read."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twom_dist.store._checks import (
    Description,
    check_unchanged,
    choose_member,
    refuse_member,
    stamp_file,
    stamp_whole,
)
from twom_dist.store._location import Location
from twom_dist.store._region import Region
from twom_dist.store.output import Output

IS_FOLDER = False
DEFAULT_MEMBER = "matrix"
# HDF5 keeps the size of a chunk in 32 bits.
_MAX_CHUNK_BYTES = 2**32 - 1

stamp = stamp_whole


def describe(location: Location) -> Description:
    """Read shape, dtype and chunks of the dataset."""
    import h5py

    fingerprint = stamp_file(location.path)
    with h5py.File(location.path, "r") as file:
        member = location.member
        if member is None:
            member = choose_member(location, _matrices(file))
        found = Location(location.path, member, location.format)
        dataset = _dataset(file, found)
        shape = dataset.shape or ()
        return Description(found, shape, dataset.dtype, dataset.chunks, fingerprint)


def read(expected: Description, region: Region) -> NDArray[Any]:
    """Read one rectangle."""
    import h5py

    with h5py.File(expected.location.path, "r") as file:
        dataset = _dataset(file, expected.location)
        check_unchanged(expected, dataset.shape or (), dataset.dtype)
        return np.ascontiguousarray(dataset[region], dtype=expected.dtype)


def _dataset(file: Any, location: Location) -> Any:
    import h5py

    found = file.get(location.member)
    if not isinstance(found, h5py.Dataset):
        raise refuse_member(location, _matrices(file))
    return found


def _matrices(file: Any) -> list[str]:
    import h5py

    found: list[str] = []

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and len(node.shape or ()) == 2:
            found.append(name)

    file.visititems(visit)
    return found


def members(path: str) -> list[str]:
    """List whatever a file holds but groups: every name, of a link as well."""
    import h5py

    names: list[str] = []

    def visit(name: str, link: Any) -> None:
        # Others are not followed: they may lead nowhere.
        is_hard = isinstance(link, h5py.HardLink)
        if not (is_hard and file.get(name, getclass=True) is h5py.Group):
            names.append(name)

    with h5py.File(path, "r") as file:
        file.visititems_links(visit)
    return names


def export(path: str, member: str | None, output: Output) -> str:
    """Create the file with one dataset, chunked by tiles where HDF5 allows it.

    Every chunk has its place from the start, so that a full disk is met early.
    """
    import h5py

    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    early.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    # Without a chunk cache a full disk is met here, and not when the file is closed:
    # HDF5 cannot close a file whose cached chunks it cannot write.
    with h5py.File(path, "w", rdcc_nbytes=0) as file:
        dataset = file.create_dataset(
            member or DEFAULT_MEMBER,
            shape=output.shape,
            dtype=output.dtype,
            chunks=output.chunks if _is_chunked(output) else None,
            dcpl=early,
        )
        for region, tile in output.read():
            dataset[region] = tile
    return path


def export_bytes(output: Output) -> int:
    """Return the disk space of all chunks."""
    return output.nbytes


def _is_chunked(output: Output) -> bool:
    chunk = math.prod(output.chunks) * output.dtype.itemsize
    return 0 not in output.shape and chunk <= _MAX_CHUNK_BYTES
