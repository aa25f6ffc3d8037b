"""zarr directory stores of formats 2 and 3, opened anew for every read."""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twom_dist.errors import StoreError
from twom_dist.store._checks import (
    Description,
    check_unchanged,
    choose_member,
    refuse_member,
    stamp_file,
)
from twom_dist.store._location import Location
from twom_dist.store._region import Region
from twom_dist.store.output import Output

IS_FOLDER = True
DEFAULT_MEMBER = ""
_METADATA = {2: ".zarray", 3: "zarr.json"}


def is_store(folder: str) -> bool:
    """Tell whether a folder is the root of a zarr array or group."""
    names = ("zarr.json", ".zarray", ".zgroup")
    return any(os.path.isfile(os.path.join(folder, name)) for name in names)


def describe(location: Location) -> Description:
    """Read the metadata of the array; its chunks are met when they are read."""
    os.stat(location.path)
    if not is_store(location.path):
        raise StoreError(
            f"{location.path!r} is not a zarr store: it holds no zarr.json, .zarray or "
            ".zgroup",
            "Give the folder that holds one of them",
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
    # The chunks can change while the metadata file stays, so its own stamp is the
    # cheapest sign of a new matrix, not a proof of the old one.
    metadata = _METADATA[array.metadata.zarr_format]
    stamp = stamp_file(os.path.join(_folder(found), metadata))
    fingerprint = f"{stamp}-{array.shape}-{array.dtype}"
    return Description(found, array.shape, array.dtype, array.chunks, fingerprint)


def read(expected: Description, region: Region) -> NDArray[Any]:
    """Read one rectangle; chunks that were never written hold the fill value."""
    import zarr

    folder = _folder(expected.location)
    # zarr 3.1.0 makes the folder of a store that it does not find.
    os.stat(folder)
    array: Any = zarr.open_array(Path(folder), mode="r")
    check_unchanged(expected, array.shape, array.dtype)
    return np.ascontiguousarray(array[region], dtype=expected.dtype)


def members(path: str) -> list[str]:
    """List the arrays of a store; a root array is the empty name."""
    return list(_arrays(path)) if is_store(path) else []


def export(path: str, member: str | None, output: Output) -> str:
    """Take the output as it is."""
    return output.store


def export_bytes(output: Output) -> int:
    """Return 0: nothing is copied."""
    return 0


def stamp(location: Location) -> str:
    """Return number and size of all files of the array, and when one last changed.

    Each of them is looked up.
    """
    count = size = latest = 0
    for folder, _, names in os.walk(_folder(location)):
        for name in names:
            status = os.stat(os.path.join(folder, name))
            count, size = count + 1, size + status.st_size
            latest = max(latest, status.st_mtime_ns)
    return f"{describe(location).fingerprint}-{count}-{size}-{latest}"


def _folder(location: Location) -> str:
    return os.path.join(location.path, location.member or "")


def _arrays(path: str) -> dict[str, Any]:
    """Open the arrays of a store, by name; a root array has the empty name."""
    import zarr

    with warnings.catch_warnings():
        # Of files that are no part of the store.
        warnings.simplefilter("ignore")
        root: Any = zarr.open(Path(path), mode="r")
        nodes = [("", root)] if isinstance(root, zarr.Array) else root.members(None)
    return {name: x for name, x in sorted(nodes) if isinstance(x, zarr.Array)}
