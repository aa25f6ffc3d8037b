"""zarr stores of formats 2 and 3, opened anew for every read."""

import math
import os
import re
import warnings
from collections.abc import Container
from functools import lru_cache, partial
from hashlib import sha256
from itertools import product
from typing import Any, Self

import numpy as np
import zarr
from numpy.typing import NDArray

from ..errors import StoreError
from . import _tree as tree
from ._errors import store_errors
from ._location import Location
from ._matrix import (
    MATRIX_AXES,
    VECTOR_AXES,
    StoredMatrix,
    name_member,
    refuse_member,
)
from ._region import Region
from .output import COMPLETE, read_manifest


class ZarrMatrix(StoredMatrix):
    """An array of a store, whose chunks are checked when they are read."""

    @classmethod
    def find(cls, location: Location) -> Self:
        tree.check_there(location.path)
        if not tree.is_store(location.path):
            raise StoreError(
                f"{location.path!r} is not a zarr store: it holds no zarr.json, "
                ".zarray or .zgroup",
                "Name the store itself",
                "no-matrix",
            )
        node = _open_node(_folder(location))
        if isinstance(node, zarr.Group):
            location = name_member(location, partial(_find_arrays, location.path))
            if not tree.is_url(location.path):
                tree.check_metadata(_folder(location))
            node = _open_node(_folder(location))
        if not isinstance(node, zarr.Array):
            raise refuse_member(location, _find_arrays(location.path))
        if read_manifest(node.attrs).get(COMPLETE) is False:
            raise StoreError(
                f"{str(location)!r} is an unfinished output: some tiles are missing",
                "Run the same job again to continue it",
                "input-unfinished",
            )
        # Chunks can change while the metadata file stays, so the stamp of that file is
        # the cheapest sign of a new matrix, but no proof that the old one is unchanged.
        metadata = ".zarray" if node.metadata.zarr_format == 2 else "zarr.json"
        stamp = tree.stamp_file(os.path.join(_folder(location), metadata))
        stamp = stamp._replace(content=f"{stamp.content}-{node.shape}-{node.dtype}")
        return cls._checked(location, node, node.chunks, stamp)

    @staticmethod
    def read_array(location: Location) -> Any:
        tree.check_there(location.path)
        array = _open_node(_folder(location))
        if not isinstance(array, zarr.Array):
            raise refuse_member(location, _find_arrays(location.path, VECTOR_AXES))
        if array.size and not array.nchunks_initialized:
            problem = f"all chunks of {str(location)!r} are missing"
            raise StoreError(problem, "Copy it again", "no-chunks")
        return array[...]

    @staticmethod
    def list_others(path: str) -> list[str]:
        """List all names but those of the array at the root, if there is one."""
        is_store, names = tree.is_store(path), tree.list_files(path)
        names = (x for x in names if not (is_store and tree.is_own(x)))
        return sorted({name.partition("/")[0] for name in names})

    def _read(self, region: Region) -> NDArray[Any]:
        # Opening an array takes up to six requests.
        once = _open_once if tree.is_url(self.path) else _open
        array = once(self.location, self.fingerprint)
        self._check_unchanged(array)
        self._check_chunks(array, region)
        return np.ascontiguousarray(array[region], dtype=self.dtype)

    def _check_chunks(self, array: Any, region: Region) -> None:
        """Refuse chunks that are not files: zarr waits for pipes and skips folders."""
        if tree.is_url(self.path):
            return
        sides = getattr(array, "shards", None) or array.chunks
        ranges = (
            range(part.start // side, -(-part.stop // side))
            for part, side in zip(region, sides, strict=True)
        )
        for index in product(*ranges):
            name = array.metadata.encode_chunk_key(index)
            tree.check_file(os.path.join(_folder(self.location), name))

    def stamp(self) -> str:
        found = sha256(super().stamp().encode())
        with store_errors(self.location, "read"):
            for seen in tree.look_at_files(_folder(self.location)):
                if tree.is_own(seen.name):
                    found.update(repr((seen.name, seen.size, seen.mark)).encode())
        return found.hexdigest()

    def count_chunks(self) -> tuple[int, int]:
        with store_errors(self.location, "read"):
            array = _open(self.location)
            chunks = getattr(array, "shards", None) or array.chunks
            counts = [-(-n // c) for n, c in zip(array.shape, chunks, strict=True)]
            files = tree.list_files(_folder(self.location))
            names = filter(tree.CHUNK.fullmatch, files)
            found = (map(int, re.findall(r"\d+", name)) for name in names)
            there = (all(map(int.__lt__, index, counts)) for index in found)
            return sum(there), math.prod(counts)

    def provenance(self) -> dict[str, Any]:
        with store_errors(self.location, "read"):
            return read_manifest(_open(self.location).attrs)


def _folder(location: Location) -> str:
    return os.path.join(location.path, location.member or "").rstrip("/")


def _open(location: Location, fingerprint: str = "") -> Any:
    return tree.open_array(_folder(location))


_open_once = lru_cache(maxsize=16)(_open)


def _open_node(path: str) -> Any:
    return zarr.open(tree.zarr_target(path), mode="r") if tree.is_store(path) else None


def _find_arrays(path: str, axes: Container[int] = MATRIX_AXES) -> list[str]:
    """Name the arrays of a store; one that is the store itself has no name."""
    with warnings.catch_warnings():
        # zarr warns of files that are not part of the store.
        warnings.simplefilter("ignore")
        root = _open_node(path)
        nodes = root.members(None) if isinstance(root, zarr.Group) else ()
    found = (name for name, x in nodes if isinstance(x, zarr.Array) and x.ndim in axes)
    return sorted(found)
