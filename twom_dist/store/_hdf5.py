"""HDF5 files, opened anew for every read."""

import json
from contextlib import suppress
from functools import partial
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from ._errors import store_errors
from ._location import DEFAULT_MEMBER, Location
from ._matrix import StoredMatrix, name_member, refuse_member
from ._region import Region
from ._tree import stamp_file
from .output import MANIFEST, read_manifest


class Hdf5Matrix(StoredMatrix):
    """A dataset."""

    @classmethod
    def find(cls, location: Location) -> Self:
        with h5py.File(location.path, "r") as file:
            location = name_member(location, partial(_matrices, file))
            dataset = _dataset(file, location)
            if dataset.is_virtual or dataset.external:
                raise StoreError(
                    f"{str(location)!r} takes its values from other files, and HDF5 "
                    "reads those that are missing as zeros",
                    "Copy it to a dataset of its own",
                    "matrix-elsewhere",
                )
            # A linked dataset lies in another file.
            files = sorted({location.path, dataset.file.filename})
            fingerprint = " ".join(map(stamp_file, files))
            return cls._checked(location, dataset, dataset.chunks, fingerprint)

    @staticmethod
    def list_others(path: str) -> list[str]:
        """List all other names, and that of an output if it is not one."""
        with h5py.File(path, "r") as file:
            own = isinstance(file.get(DEFAULT_MEMBER), h5py.Dataset)
            return [name for name in file if not (own and name == DEFAULT_MEMBER)]

    def _read(self, region: Region) -> NDArray[Any]:
        with h5py.File(self.path, "r") as file:
            dataset = _dataset(file, self.location)
            self._check_unchanged(dataset)
            return np.ascontiguousarray(dataset[region], dtype=self.dtype)

    def provenance(self) -> dict[str, Any]:
        with store_errors(self.location, "read"), h5py.File(self.path, "r") as file:
            found = _dataset(file, self.location).attrs.get(MANIFEST)
        # Somebody else may call an attribute so.
        with suppress(ValueError):
            return read_manifest({MANIFEST: json.loads(str(found))})
        return {}


def _dataset(file: Any, location: Location) -> Any:
    found = file.get(location.member)
    if not isinstance(found, h5py.Dataset):
        raise refuse_member(location, _matrices(file))
    return found


def _matrices(file: Any) -> list[str]:
    found: list[str] = []

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and len(node.shape or ()) == 2:
            found.append(name)

    file.visititems(visit)
    return found
