"""HDF5 files, opened anew for every read."""

import json
import os
from collections.abc import Container, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from ._errors import store_errors
from ._location import DEFAULT_MEMBER, Location
from ._matrix import (
    MATRIX_AXES,
    VECTOR_AXES,
    StoredMatrix,
    name_member,
    refuse_member,
)
from ._region import Region
from ._tree import Stamp, stamp_file
from .output import MANIFEST, read_manifest


class Hdf5Matrix(StoredMatrix):
    """A dataset, whose values may lie in several files."""

    @classmethod
    def find(cls, location: Location) -> Self:
        with h5py.File(location.path, "r") as file:
            location = name_member(location, partial(_find_arrays, file))
            dataset = _dataset(file, location)
            files = sorted({location.path, *_files(dataset)})
            stamp = Stamp(*map(" ".join, zip(*map(stamp_file, files), strict=True)))
            return cls._checked(location, dataset, dataset.chunks, stamp)

    @staticmethod
    def read_array(location: Location) -> Any:
        with h5py.File(location.path, "r") as file:
            return _dataset(file, location, VECTOR_AXES)[()]

    @staticmethod
    def list_others(path: str) -> list[str]:
        """List the names of all other members but groups, those of links included."""
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

    def provenance(self) -> dict[str, Any]:
        with store_errors(self.location, "read"), h5py.File(self.path, "r") as file:
            found = _dataset(file, self.location).attrs.get(MANIFEST)
        # Another program may use the same name for an attribute.
        with suppress(ValueError):
            return read_manifest({MANIFEST: json.loads(str(found))})
        return {}


def _files(dataset: Any) -> Iterator[str]:
    """List the files that hold the values; HDF5 reads one that is missing as zeros.

    A linked dataset lies in another file; virtual ones, and those with external
    storage, refer to more.
    """
    own = dataset.file.filename
    yield own
    for name, *_ in dataset.external or ():
        # HDF5 looks for it in the working directory of the process.
        if not os.path.exists(name):
            raise _refuse_source(own, name)
        yield os.path.abspath(name)
    for source in dataset.virtual_sources() if dataset.is_virtual else ():
        path = own if source.file_name == "." else _find_file(own, source.file_name)
        with h5py.File(path, "r") as file:
            if not isinstance(file.get(source.dset_name), h5py.Dataset):
                raise _refuse_source(own, f"{path}::{source.dset_name}")
            if (path, source.dset_name) != (own, dataset.name):
                yield from _files(file[source.dset_name])


def _find_file(own: str, name: str) -> str:
    """Find a file that another one refers to in the folders where HDF5 looks."""
    folder = os.path.dirname(own)
    for path in (os.path.join(folder, name), os.path.join(folder, Path(name).name)):
        if os.path.exists(path):
            return path
    raise _refuse_source(own, name)


def _refuse_source(own: str, name: str) -> StoreError:
    return StoreError(
        f"{own!r} takes values from {name!r}, which is missing",
        "Restore it: HDF5 would read zeros in its place",
        "source-missing",
    )


def _dataset(file: Any, location: Location, axes: Container[int] = MATRIX_AXES) -> Any:
    found = None if location.member is None else file.get(location.member)
    if not isinstance(found, h5py.Dataset):
        raise refuse_member(location, _find_arrays(file, axes))
    return found


def _find_arrays(file: Any, axes: Container[int] = MATRIX_AXES) -> list[str]:
    found: list[str] = []

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and len(node.shape or ()) in axes:
            found.append(name)

    file.visititems(visit)
    return found
