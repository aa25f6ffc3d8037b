"""zarr stores of formats 2 and 3, opened anew for every read."""

import math
import os
import re
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twom_dist.errors import StoreError
from twom_dist.store._checks import (
    Description,
    check_unchanged,
    choose_member,
    refuse_member,
)
from twom_dist.store._location import Location
from twom_dist.store._region import Region
from twom_dist.store._tree import (
    check_there,
    exists,
    is_url,
    list_files,
    stamp_all,
    stamp_object,
    zarr_target,
)
from twom_dist.store.output import Output, check_complete, read_manifest

IS_FOLDER = True
DEFAULT_MEMBER = ""
_METADATA = {2: ".zarray", 3: "zarr.json"}
# Of chunks: c/0/1, 0/1 or 0.1.
_CHUNK = re.compile(r"(c/)?\d+([./]\d+)*")
# In the folder of an array, beside its metadata.
_CHUNK_FOLDER = re.compile(r"c|\d+(\.\d+)*")


def is_store(path: str) -> bool:
    """Tell whether a folder or prefix is the root of a zarr array or group."""
    names = ("zarr.json", ".zarray", ".zgroup")
    return any(exists(os.path.join(path, name)) for name in names)


def describe(location: Location) -> Description:
    """Read the metadata of the array; its chunks are met when they are read."""
    check_there(location.path)
    if not is_store(location.path):
        raise StoreError(
            f"{location.path!r} is not a zarr store: it holds no zarr.json, .zarray or "
            ".zgroup",
            "Name the store itself",
            "no-matrix",
        )
    arrays = _arrays(location.path)
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    member = location.member
    if member is None:
        member = choose_member(location, matrices)
    elif member not in arrays:
        raise refuse_member(location, matrices)
    array, found = arrays[member], Location(location.path, member or None, "zarr")
    check_complete(str(found), array.attrs)
    # The chunks can change while the metadata file stays, so its own stamp is the
    # cheapest sign of a new matrix, not a proof of the old one.
    metadata = _METADATA[array.metadata.zarr_format]
    stamp = stamp_object(os.path.join(_folder(found), metadata))
    fingerprint = f"{stamp}-{array.shape}-{array.dtype}"
    return Description(found, array.shape, array.dtype, array.chunks, fingerprint)


def read(expected: Description, region: Region) -> NDArray[Any]:
    """Read one rectangle; chunks that were never written hold the fill value."""
    location = expected.location
    # To open an array takes ten requests.
    once = _open_once if is_url(location.path) else _open
    array = once(location, expected.fingerprint)
    check_unchanged(expected, array.shape, array.dtype)
    return np.ascontiguousarray(array[region], dtype=expected.dtype)


def members(path: str) -> list[str]:
    """List the arrays of a store, a root array by the empty name, and foreign files."""
    if not is_store(path):
        return []
    arrays = list(_arrays(path))
    if is_url(path) or arrays != [""]:
        return arrays
    own = ("zarr.json", ".zarray", ".zattrs", ".zmetadata")
    names = (name for name in os.listdir(path) if name not in own)
    return [*arrays, *(x for x in names if not _CHUNK_FOLDER.fullmatch(x))]


def export(path: str, member: str | None, output: Output) -> str:
    """Take the output as it is."""
    return output.store


def export_bytes(output: Output) -> int:
    """Return 0: nothing is copied."""
    return 0


def stamp(location: Location) -> str:
    """Return what changes when any file of the array is rewritten."""
    return f"{describe(location).fingerprint}-{stamp_all(_folder(location))}"


def count_chunks(location: Location) -> tuple[int, int]:
    """Count the chunks that are stored, by their names, and those that could be."""
    array = _open(location)
    chunks = getattr(array, "shards", None) or array.chunks
    whole = math.prod(-(-n // c) for n, c in zip(array.shape, chunks, strict=True))
    names = list_files(_folder(location))
    return sum(_CHUNK.fullmatch(name) is not None for name in names), whole


def provenance(location: Location) -> dict[str, Any]:
    """Return what an output of ours says about itself; empty for other matrices."""
    return read_manifest(_open(location).attrs)


def _folder(location: Location) -> str:
    return os.path.join(location.path, location.member or "").rstrip("/")


def _open(location: Location, fingerprint: str = "") -> Any:
    import zarr

    folder = _folder(location)
    if not is_url(folder):
        # zarr 3.1.0 makes the folder of a store that it does not find.
        os.stat(folder)
    return zarr.open_array(zarr_target(folder), mode="r")


_open_once = lru_cache(maxsize=16)(_open)


def _arrays(path: str) -> dict[str, Any]:
    """Open the arrays of a store, by name; a root array has the empty name."""
    import zarr

    with warnings.catch_warnings():
        # Of files that are no part of the store.
        warnings.simplefilter("ignore")
        root: Any = zarr.open(zarr_target(path), mode="r")
        nodes = [("", root)] if isinstance(root, zarr.Array) else root.members(None)
    return {name: x for name, x in sorted(nodes) if isinstance(x, zarr.Array)}
