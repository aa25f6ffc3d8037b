"""HDF5 files, opened anew for every read, and other files that they refer to."""

import json
import math
import os
from collections.abc import Container, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Self

import h5py
import numpy as np
from h5py import h5o, h5s
from numpy.typing import NDArray

from ..errors import StoreError
from ._errors import store_errors
from ._location import DEFAULT_MEMBER, Location, make_absolute
from ._matrix import (
    MATRIX_AXES,
    VECTOR_AXES,
    Region,
    StoredMatrix,
    name_member,
    no_such_member,
    refuse_empty,
)
from ._tree import Stamp, check_kind, stamp_file
from .output import MANIFEST, read_notes


class Hdf5Matrix(StoredMatrix):
    """A dataset, whose values may lie in several files."""

    @classmethod
    def find(cls, location: Location) -> Self:
        with h5py.File(location.path, "r") as file:
            location = name_member(location, partial(_find_arrays, file))
            dataset = _dataset(file, location)
            files = sorted({location.path} | list_files(dataset))
            stamp = Stamp(*map(" ".join, zip(*map(stamp_file, files), strict=True)))
            return cls._checked(location, dataset, dataset.chunks, stamp)

    @staticmethod
    def read_array(location: Location) -> Any:
        with h5py.File(location.path, "r") as file:
            dataset = _dataset(file, location, VECTOR_AXES)
            # It refuses those that are missing, or that HDF5 would wait for.
            list_files(dataset)
            refuse_empty(location, *count_parts(dataset))
            return dataset[()]

    @staticmethod
    def list_others(path: str) -> list[str]:
        names: list[str] = []

        def visit(name: str, link: Any) -> None:
            # Soft and external links are not followed: they may lead nowhere.
            is_hard = isinstance(link, h5py.HardLink)
            is_group = is_hard and file.get(name, getclass=True) is h5py.Group
            if name != DEFAULT_MEMBER and not is_group:
                names.append(name)

        with h5py.File(path, "r") as file:
            file.visititems_links(visit)
        return names

    def _read(self, region: Region) -> NDArray[Any]:
        with h5py.File(self.path, "r") as file:
            dataset = _dataset(file, self.location)
            self._check_unchanged(dataset)
            return np.ascontiguousarray(dataset[region], dtype=self.dtype)

    def count_chunks(self) -> tuple[int, int]:
        with store_errors(self.location, "read"), h5py.File(self.path, "r") as file:
            return count_parts(_dataset(file, self.location))

    def provenance(self) -> dict[str, Any]:
        with store_errors(self.location, "read"), h5py.File(self.path, "r") as file:
            found = _dataset(file, self.location).attrs.get(MANIFEST)
        # Another program may use the same name for an attribute.
        with suppress(ValueError, RecursionError):
            return read_notes({MANIFEST: json.loads(str(found))})
        return {}


def _dataset(file: Any, location: Location, axes: Container[int] = MATRIX_AXES) -> Any:
    found = None if location.member is None else file.get(location.member)
    if not isinstance(found, h5py.Dataset):
        raise no_such_member(location, _find_arrays(file, axes))
    return found


def _find_arrays(file: Any, axes: Container[int] = MATRIX_AXES) -> list[str]:
    found: list[str] = []

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and len(node.shape or ()) in axes:
            found.append(name)

    file.visititems(visit)
    return found


def _walk(dataset: Any, inside: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Yield a dataset and all that it takes values from, some more than once.

    HDF5 would go round for ever where one takes values from itself.
    """
    own = dataset.file.filename
    # One dataset may have several names, in files that have several names.
    key = os.stat(own).st_dev, os.stat(own).st_ino, h5o.get_info(dataset.id).addr
    if key in inside:
        problem = f"{own!r} holds {dataset.name!r}, which takes values from itself"
        raise StoreError(problem, "Write it again, from other datasets", "source-cycle")
    yield dataset
    for _, source in _sources(dataset):
        yield from _walk(source, (*inside, key))


def _sources(dataset: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the mappings of a virtual dataset, each with the dataset it refers to."""
    own = dataset.file.filename
    for source in dataset.virtual_sources() if dataset.is_virtual else ():
        name = source.file_name
        path = own if name == "." else _find_source(own, name)
        with h5py.File(path, "r") as file:
            found = file.get(source.dset_name)
            if not isinstance(found, h5py.Dataset):
                raise _refuse_source(own, f"{path}::{source.dset_name}")
            yield source, found


def list_files(dataset: Any) -> set[str]:
    """List the files that hold the values; HDF5 reads one that is missing as zeros.

    A linked dataset lies in another file, and virtual ones refer to more.
    """
    found = set()
    for part in _walk(dataset):
        found.add(part.file.filename)
        if part.external:
            problem = f"{part.file.filename!r} holds {part.name!r} in external storage"
            raise StoreError(problem, "Copy it to a dataset", "external-storage")
    return found


def _find_source(own: str, name: str) -> str:
    """Find the file of a source where HDF5 looks, which would read zeros without it."""
    folders = [x for x in os.environ.get("HDF5_VDS_PREFIX", "").split(":") if x]
    folders += [os.path.dirname(own), "", os.path.dirname(os.path.realpath(own))]
    paths = [name] if os.path.isabs(name) else []
    end = os.path.basename(name) if paths else name
    paths += [make_absolute(os.path.join(folder, end)) for folder in folders]
    found = next(filter(os.path.exists, paths), "")
    if not found:
        raise _refuse_source(own, name)
    check_kind(found)
    return found


def _refuse_source(own: str, name: str) -> StoreError:
    problem = f"{own!r} takes values from {name!r}, which is missing"
    remedy = "Restore it: HDF5 would read zeros in its place"
    return StoreError(problem, remedy, "source-missing")


def count_parts(dataset: Any) -> tuple[int, int]:
    """Count the chunks that a dataset and its sources have, and could have."""
    there, whole = zip(*map(_count_own, _walk(dataset)), strict=True)
    return sum(there), sum(whole)


def _count_own(dataset: Any) -> tuple[int, int]:
    if dataset.is_virtual:
        # What no source covers is one that is missing.
        return 0, int(not _covers(dataset))
    if dataset.chunks is None:
        return int(not dataset.size or dataset.id.get_storage_size() > 0), 1
    counts = (-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
    return dataset.id.get_num_chunks(), math.prod(counts)


def _covers(dataset: Any) -> bool:
    """Tell whether the sources of a virtual dataset give all of its values."""
    covered = h5s.create_simple(dataset.shape)
    covered.select_none()
    for mapping, source in _sources(dataset):
        if not all(_fits(x, source.shape) for x in _list_slabs(mapping.src_space)):
            return False
        for start, stride, count, block in _list_slabs(mapping.vspace):
            # What has no end goes on to that of the dataset.
            count, block = (tuple(map(min, x, dataset.shape)) for x in (count, block))
            covered.select_hyperslab(start, count, stride, block, h5s.SELECT_OR)
    return bool(covered.get_select_npoints() >= dataset.size)


def _list_slabs(space: Any) -> list[Any]:
    """List start, stride, count and block of what is selected; nothing for all."""
    if space.get_select_type() != h5s.SEL_HYPERSLABS:
        return []
    if space.is_regular_hyperslab():
        return [space.get_regular_hyperslab()]
    ones = (1,) * space.get_simple_extent_ndims()
    blocks = space.get_select_hyper_blocklist()
    return [(low, ones, ones, high - low + 1) for low, high in blocks]


def _fits(slab: Any, shape: tuple[int, ...]) -> bool:
    sides = zip(*slab, shape, strict=True)
    return all(
        h5s.UNLIMITED in (count, block) or start + (count - 1) * stride + block <= n
        for start, stride, count, block, n in sides
    )
