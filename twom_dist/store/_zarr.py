"""zarr stores of formats 2 and 3, opened anew for every read."""

import math
import os
import re
import warnings
from collections.abc import Sequence
from functools import lru_cache, partial
from hashlib import sha256
from itertools import islice, product
from typing import Any, Self

import numpy as np
import zarr

from ..errors import StoreError
from ..typing import Array
from . import _tree as tree
from ._errors import store_errors
from ._location import Location
from ._matrix import Region, StoredMatrix, name_member, no_such_member, refuse_empty
from .output import read_notes


class ZarrMatrix(StoredMatrix):
    """An array of a store, whose chunks are checked when they are read."""

    @classmethod
    def find(cls, location: Location, pairs: bool) -> Self:
        tree.check_there(location.path)
        if not tree.is_store(location.path):
            problem = (
                f"{location.path!r} is not a zarr store: it holds no zarr.json, "
                ".zarray or .zgroup"
            )
            raise StoreError(problem, "Name the store itself", "no-matrix")
        node = _open_node(_folder(location))
        if isinstance(node, zarr.Group):
            find = partial(_find_arrays, location.path)
            location = name_member(location, find, pairs)
            node = _open_node(_folder(location))
        if not isinstance(node, zarr.Array):
            raise no_such_member(location, _find_arrays(location.path))
        # Chunks can change while the metadata file stays, so the stamp of that file is
        # the cheapest sign of a new matrix, but no proof that the old one is unchanged.
        metadata = ".zarray" if node.metadata.zarr_format == 2 else "zarr.json"
        stamp = tree.stamp_file(os.path.join(_folder(location), metadata))
        stamp = stamp._replace(content=f"{stamp.content}-{node.shape}-{node.dtype}")
        return cls._of_array(location, node, node.chunks, stamp, pairs)

    @staticmethod
    def read_array(location: Location) -> Any:
        tree.check_there(location.path)
        array = _open_node(_folder(location))
        if not isinstance(array, zarr.Array):
            raise no_such_member(location, _find_arrays(location.path))
        refuse_empty(location, *_count_chunks(location, array))
        _check_chunks(location, array, [slice(0, n) for n in array.shape])
        return array[...]

    @staticmethod
    def list_others(path: str) -> list[str]:
        is_store, names = tree.is_store(path), tree.list_files(path)
        names = (x for x in names if not (is_store and tree.is_own(x)))
        return [*islice(names, 1)]

    def _read(self, region: Region) -> Array:
        # Opening an array takes up to six requests.
        once = _open_once if tree.is_url(self.path) else _open
        array = once(self.location, self.fingerprint)
        self._check_unchanged(array)
        _check_chunks(self.location, array, region)
        return np.ascontiguousarray(array[region], self.parts)

    def stamp(self) -> str:
        found = sha256(super().stamp().encode())
        with store_errors(self.location, "read"):
            for seen in tree.stat_files(_folder(self.location)):
                if tree.is_own(seen.name):
                    found.update(repr((seen.name, seen.size, seen.mark)).encode())
        return found.hexdigest()

    def count_chunks(self) -> tuple[int, int]:
        with store_errors(self.location, "read"):
            return _count_chunks(self.location, _open(self.location))

    def provenance(self) -> dict[str, Any]:
        with store_errors(self.location, "read"):
            return read_notes(_open(self.location).attrs)


def _folder(location: Location) -> str:
    return os.path.join(location.path, location.member or "").rstrip("/")


def _open(location: Location, fingerprint: str = "") -> Any:
    return tree.open_array(_folder(location))


_open_once = lru_cache(maxsize=16)(_open)


def _open_node(path: str) -> Any:
    return zarr.open(tree.zarr_target(path), mode="r") if tree.is_store(path) else None


def _chunk_shape(array: Any) -> Any:
    return getattr(array, "shards", None) or array.chunks


def _check_chunks(location: Location, array: Any, region: Sequence[slice]) -> None:
    """Refuse chunks that are not files: zarr waits for pipes and skips folders."""
    if tree.is_url(location.path):
        return
    ranges = (
        range(part.start // side, -(-part.stop // side))
        for part, side in zip(region, _chunk_shape(array), strict=True)
    )
    for name in map(array.metadata.encode_chunk_key, product(*ranges)):
        tree.check_file(os.path.join(_folder(location), name))


def _count_chunks(location: Location, array: Any) -> tuple[int, int]:
    """Count the chunks that are there, by their names, and those that could be."""
    sides = zip(array.shape, _chunk_shape(array), strict=True)
    counts = [-(-n // c) for n, c in sides]
    names = filter(tree.CHUNK.fullmatch, tree.list_files(_folder(location)))
    found = (map(int, re.findall(r"\d+", name)) for name in names)
    there = (all(map(int.__lt__, index, counts)) for index in found)
    return sum(there), math.prod(counts)


def _find_arrays(path: str, axes: int | None = None) -> list[str]:
    """Name the arrays of a store; one that is the store itself has no name."""
    with warnings.catch_warnings():
        # zarr warns of files that are not part of the store.
        warnings.simplefilter("ignore")
        root = _open_node(path)
        nodes = root.members(None) if isinstance(root, zarr.Group) else ()
        arrays = [(x, y.ndim) for x, y in nodes if isinstance(y, zarr.Array)]
        return sorted(x for x, ndim in arrays if axes in (None, ndim))
