"""HDF5 files, opened anew for every read."""

import json
import math
from contextlib import suppress
from functools import partial
from typing import Any, Self

import h5py
import numpy as np

from ..errors import StoreError
from ..typing import Array
from ._errors import store_errors
from ._location import DEFAULT_MEMBER, Location
from ._matrix import Region, StoredMatrix, name_member, no_such_member, refuse_empty
from ._tree import Stamp, stamp_file
from .output import MANIFEST, read_notes


class Hdf5Matrix(StoredMatrix):
    """A dataset, which the file may link to."""

    @classmethod
    def find(cls, location: Location, pairs: bool) -> Self:
        with h5py.File(location.path, "r") as file:
            location = name_member(location, partial(_find_arrays, file), pairs)
            dataset = _dataset(file, location)
            files = sorted({location.path, dataset.file.filename})
            stamp = Stamp(*map(" ".join, zip(*map(stamp_file, files), strict=True)))
            return cls._of_array(location, dataset, dataset.chunks, stamp, pairs)

    @staticmethod
    def read_array(location: Location) -> Any:
        with h5py.File(location.path, "r") as file:
            dataset = _dataset(file, location)
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

    def _read(self, region: Region) -> Array:
        with h5py.File(self.path, "r") as file:
            dataset = _dataset(file, self.location)
            self._check_unchanged(dataset)
            return np.ascontiguousarray(dataset[region], self.parts)

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


def _dataset(file: Any, location: Location) -> Any:
    found = None if location.member is None else file.get(location.member)
    if not isinstance(found, h5py.Dataset):
        raise no_such_member(location, _find_arrays(file))
    if found.is_virtual or found.external:
        # HDF5 would read zeros where one of the others is missing, or too short.
        raise StoreError(
            f"the values of {str(location)!r} lie in other files, as a virtual dataset "
            "or in external storage",
            "Copy them to a dataset, or give td.gemm the open one of h5py",
            "values-elsewhere",
        )
    return found


def _find_arrays(file: Any, axes: int | None = None) -> list[str]:
    found: dict[str, int] = {}

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset):
            found[name] = len(node.shape or ())

    file.visititems(visit)
    return [name for name, ndim in found.items() if axes in (None, ndim)]


def count_parts(dataset: Any) -> tuple[int, int]:
    """Count the chunks that a dataset has, and could have."""
    if dataset.chunks is None:
        return int(not dataset.size or dataset.id.get_storage_size() > 0), 1
    counts = (-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
    return dataset.id.get_num_chunks(), math.prod(counts)
