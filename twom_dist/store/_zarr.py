"""zarr directory stores of formats 2 and 3, opened anew for every read and write."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twom_dist.errors import StoreError
from twom_dist.store._checks import (
    Description,
    check_unchanged,
    choose_member,
    padded_bytes,
    refuse_member,
    stamp_file,
)
from twom_dist.store._draft import Draft
from twom_dist.store._location import Location
from twom_dist.store._publish import sync_path
from twom_dist.store._region import Region

IS_FOLDER = True
CONCURRENT = True
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
    array = _open(folder, "r")
    # The chunks can change while the metadata file stays, so its own stamp is the
    # cheapest sign of a new matrix, not a proof of the old one.
    fingerprint = f"{stamp}-{array.shape}-{array.dtype}"
    return Description(found, array.shape, array.dtype, array.chunks, fingerprint)


def read(expected: Description, region: Region) -> NDArray[Any]:
    """Read one rectangle; chunks that were never written hold the fill value."""
    array = _open(_folder(expected.location), "r")
    check_unchanged(expected, array.shape, array.dtype)
    return np.ascontiguousarray(array[region], dtype=expected.dtype)


def members(path: str) -> list[str]:
    """List the arrays of a store; a root array is the empty name."""
    return [name for name, _ in _arrays(path)]


def create(draft: Draft) -> None:
    """Create a format 3 store, one chunk a tile, uncompressed."""
    import zarr

    zarr.create_array(
        Path(draft.temporary),
        name=draft.member,
        shape=draft.shape,
        dtype=draft.dtype,
        chunks=draft.chunks,
        # The low bits of a product look random: compressing them only takes time.
        compressors=None,
        filters=None,
        fill_value=0,
        zarr_format=3,
    )


def write(draft: Draft, region: Region, values: NDArray[Any]) -> None:
    """Write one rectangle; whole tiles are safe from several processes at once."""
    import zarr

    array = _open(os.path.join(draft.temporary, draft.member or ""), "r+")
    # zarr leaves out a chunk that equals the fill value, and takes a complex -0.0 for
    # 0.0. `open_array` ignores the setting, and `with_config` is missing in zarr 3.1.3.
    writable: Any = zarr.Array(
        zarr.AsyncArray(
            metadata=array.metadata,
            store_path=array.store_path,
            config={"write_empty_chunks": True},
        )
    )
    writable[region] = values


def sync(draft: Draft, regions: Sequence[Region]) -> None:
    """Sync the chunks of whole tiles, and the folders that name them."""
    root = os.path.join(draft.temporary, draft.member or "")
    top = os.path.join(root, "c")
    folders = {root, top}
    for rows, columns in regions:
        i, j = rows.start // draft.chunks[0], columns.start // draft.chunks[1]
        folder = os.path.join(top, str(i))
        sync_path(os.path.join(folder, str(j)))
        folders.add(folder)
    for folder in folders:
        sync_path(folder)


def finish(draft: Draft) -> str:
    """Publish the store, without the chunks that a killed process has not finished."""
    # zarr writes them under such names, and renames them.
    for path in Path(draft.temporary, draft.member or "", "c").glob("*/*.partial"):
        path.unlink()
    return draft.temporary


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


def needed_bytes(draft: Draft) -> int:
    """Return the disk space that the matrix takes until it is committed."""
    return padded_bytes(draft.shape, draft.chunks, draft.dtype)


def _folder(location: Location) -> str:
    return os.path.join(location.path, location.member or "")


def _array_format(folder: str) -> Literal[2, 3]:
    return 3 if os.path.isfile(os.path.join(folder, _METADATA[3])) else 2


def _open(folder: str, mode: Literal["r", "r+"]) -> Any:
    import zarr

    form = _array_format(folder)
    # zarr 3.1.0 makes the folder of a store that it does not find.
    os.stat(os.path.join(folder, _METADATA[form]))
    return zarr.open_array(Path(folder), mode=mode, zarr_format=form)


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
