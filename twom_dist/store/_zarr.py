"""zarr directory stores of formats 2 and 3, opened anew for every read."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

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
_METADATA: dict[Literal[2, 3], str] = {2: ".zarray", 3: "zarr.json"}


def is_store(folder: str) -> bool:
    """Tell whether a folder is the root of a zarr array or group."""
    names = ("zarr.json", ".zarray", ".zgroup")
    return any(os.path.isfile(os.path.join(folder, name)) for name in names)


def describe(location: Location) -> Description:
    """Read the metadata of the array; its chunks are met when they are read."""
    found = _find_array(location)
    folder = _folder(found)
    metadata = os.path.join(folder, _METADATA[_array_format(folder)])
    stamp = stamp_file(metadata)
    array = _open(folder)
    # The chunks can change while the metadata file stays, so its own stamp is the
    # cheapest sign of a new matrix, not a proof of the old one.
    fingerprint = f"{stamp}-{array.shape}-{array.dtype}"
    return Description(found, array.shape, array.dtype, array.chunks, fingerprint)


def read(expected: Description, region: Region) -> NDArray[Any]:
    """Read one rectangle; chunks that were never written hold the fill value."""
    array = _open(_folder(expected.location))
    check_unchanged(expected, array.shape, array.dtype)
    return np.ascontiguousarray(array[region], dtype=expected.dtype)


def members(path: str) -> list[str]:
    """List the arrays of a store; a root array is the empty name."""
    return [name for name, _ in _arrays(path)]


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


def _array_format(folder: str) -> Literal[2, 3]:
    return 3 if os.path.isfile(os.path.join(folder, _METADATA[3])) else 2


def _open(folder: str) -> Any:
    import zarr

    form = _array_format(folder)
    # zarr 3.1.0 makes the folder of a store that it does not find.
    os.stat(os.path.join(folder, _METADATA[form]))
    return zarr.open_array(Path(folder), mode="r", zarr_format=form)


def _find_array(location: Location) -> Location:
    if location.member is None:
        if not is_store(location.path):
            raise StoreError(
                f"{location.path!r} is not a zarr store: it holds no zarr.json, "
                ".zarray or .zgroup",
                "Give the folder that holds one of them",
                "no-matrix",
            )
        member = choose_member(location, list(_matrices(location.path))) or None
        return Location(location.path, member, location.format)
    if _array_shape(_folder(location)) is None:
        raise refuse_member(location, list(_matrices(location.path)))
    return location


def _matrices(root: str) -> Iterator[str]:
    """Yield the 2-D arrays of a store."""
    return (name for name, shape in _arrays(root) if len(shape) == 2)


def _arrays(root: str) -> Iterator[tuple[str, list[int]]]:
    """Yield name and shape of every array; a root array is the empty name."""
    for folder, below, _ in os.walk(root):
        below.sort()
        shape = _array_shape(folder)
        if shape is not None:
            # What lies below an array is its chunks.
            below.clear()
            yield os.path.relpath(folder, root) if folder != root else "", shape


def _array_shape(folder: str) -> list[int] | None:
    """Return the shape in the metadata of an array, None where there is no array."""
    path = os.path.join(folder, _METADATA[_array_format(folder)])
    if not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as stream:
        metadata = json.load(stream)
    if metadata.get("node_type", "array") != "array":
        return None
    return list(metadata["shape"])
