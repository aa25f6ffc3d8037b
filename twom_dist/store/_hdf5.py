"""HDF5 files, opened anew for every read."""

import json
from collections.abc import Container
from contextlib import suppress
from functools import partial
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from ._errors import store_errors
from ._location import DEFAULT_MEMBER, Location
from ._matrix import (
    MATRIX_AXES,
    VECTOR_AXES,
    Region,
    StoredMatrix,
    name_member,
    refuse_empty,
    refuse_member,
)
from ._references import count_chunks, list_files, look_up
from ._tree import Stamp, stamp_file
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
            refuse_empty(location, *count_chunks(dataset))
            return dataset[()]

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

    def count_chunks(self) -> tuple[int, int]:
        with store_errors(self.location, "read"), h5py.File(self.path, "r") as file:
            return count_chunks(_dataset(file, self.location))

    def provenance(self) -> dict[str, Any]:
        with store_errors(self.location, "read"), h5py.File(self.path, "r") as file:
            found = _dataset(file, self.location).attrs.get(MANIFEST)
        # Another program may use the same name for an attribute.
        with suppress(ValueError, RecursionError):
            return read_notes({MANIFEST: json.loads(str(found))})
        return {}


def _dataset(file: Any, location: Location, axes: Container[int] = MATRIX_AXES) -> Any:
    found = None if location.member is None else look_up(file, location.member)
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
