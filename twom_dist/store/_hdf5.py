"""HDF5 files, opened anew for every read."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twom_dist.errors import StoreError
from twom_dist.store._checks import (
    Description,
    check_unchanged,
    choose_member,
    count_whole,
    refuse_member,
    stamp_file,
)
from twom_dist.store._location import Location
from twom_dist.store._region import Region
from twom_dist.store.output import MANIFEST, Output

IS_FOLDER = False
DEFAULT_MEMBER = "matrix"
# HDF5 keeps the size of a chunk in 32 bits.
_MAX_CHUNK_BYTES = 2**32 - 1

count_chunks = count_whole


def describe(location: Location) -> Description:
    """Read shape, dtype and chunks of the dataset."""
    import h5py

    with h5py.File(location.path, "r") as file:
        member = location.member
        if member is None:
            member = choose_member(location, _matrices(file))
        found = Location(location.path, member, location.format)
        dataset = _dataset(file, found)
        shape = dataset.shape or ()
        files = sorted({location.path, *_files(dataset)})
        fingerprint = " ".join(map(stamp_file, files))
        return Description(found, shape, dataset.dtype, dataset.chunks, fingerprint)


def stamp(location: Location) -> str:
    """Return what changes when a file that holds values of the dataset is rewritten."""
    return describe(location).fingerprint


def provenance(location: Location) -> dict[str, Any]:
    """Return what an output of ours says about itself; empty for other matrices."""
    import h5py

    with h5py.File(location.path, "r") as file:
        found = _dataset(file, location).attrs.get(MANIFEST)
        return dict(json.loads(found)) if isinstance(found, str) else {}


def read(expected: Description, region: Region) -> NDArray[Any]:
    """Read one rectangle."""
    import h5py

    with h5py.File(expected.location.path, "r") as file:
        dataset = _dataset(file, expected.location)
        check_unchanged(expected, dataset.shape or (), dataset.dtype)
        return np.ascontiguousarray(dataset[region], dtype=expected.dtype)


def _files(dataset: Any) -> Iterator[str]:
    """List the files that hold the values; HDF5 reads one that is missing as zeros.

    A linked dataset lies in another file; virtual ones, and those with external
    storage, refer to more.
    """
    import h5py

    own = dataset.file.filename
    yield own
    for name, *_ in dataset.external or ():
        yield _find_file(own, name)
    if not dataset.is_virtual:
        return
    for source in dataset.virtual_sources():
        path = own if source.file_name == "." else _find_file(own, source.file_name)
        with h5py.File(path, "r") as file:
            if not isinstance(file.get(source.dset_name), h5py.Dataset):
                raise _refuse_source(own, f"{path}::{source.dset_name}")
            if path != own:
                yield from _files(file[source.dset_name])


def _find_file(own: str, name: str) -> str:
    """Find a file that another one refers to, where HDF5 looks for it."""
    folder = os.path.dirname(own)
    for path in (os.path.join(folder, name), os.path.join(folder, Path(name).name)):
        if os.path.exists(path):
            return path
    raise _refuse_source(own, name)


def _refuse_source(own: str, name: str) -> StoreError:
    return StoreError(
        f"{own!r} takes values from {name!r}, which is not there",
        "Bring it back: HDF5 would read zeros",
        "source-missing",
    )


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
        dataset.attrs[MANIFEST] = json.dumps(output.manifest())
        for region, tile in output.read():
            dataset[region] = tile
    return path


def export_bytes(output: Output) -> int:
    """Return the disk space of all chunks."""
    return output.nbytes


def _is_chunked(output: Output) -> bool:
    chunk = math.prod(output.chunks) * output.dtype.itemsize
    return 0 not in output.shape and chunk <= _MAX_CHUNK_BYTES
