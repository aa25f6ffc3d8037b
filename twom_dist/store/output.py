"""An output on its way: a zarr array whose chunks are its finished tiles."""

import os
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np

from twom_dist.errors import StoreError
from twom_dist.store._checks import padded_bytes, store_errors
from twom_dist.store._publish import sync_path
from twom_dist.store._region import Region
from twom_dist.store._tree import (
    check_there,
    is_url,
    list_sizes,
    remove_tree,
    sync_object,
    zarr_target,
)
from twom_dist.typing import Array, Cell

# Of the attributes of an array.
MANIFEST = "twom_dist"
# Of a manifest, when the array is whole.
COMPLETE = "complete"
_CHUNK = re.compile(r"(\d+)/(\d+)")

Manifest = dict[str, Any]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Output:
    """A zarr array that is written one tile at a time, one chunk each.

    It keeps no open file: a pickled copy writes to the same array, from any process
    that sees the same file system or object store.

    Attributes
    ----------
    store : str
        Path or URL of the zarr store.
    member : str
        Name of the array in it; empty if it is the array.
    shape : tuple of int
    tile : tuple of int
        Rows and columns.
    dtype : numpy.dtype
    id : str
        Tells it from what another run makes in the same place.
    """

    store: str
    member: str
    shape: tuple[int, int]
    tile: tuple[int, int]
    dtype: np.dtype[Any]
    id: str

    @property
    def array(self) -> str:
        """Path or URL of the array."""
        return os.path.join(self.store, self.member) if self.member else self.store

    @property
    def chunks(self) -> tuple[int, int]:
        """The tile, no larger than the matrix: stored chunks are padded to whole."""
        (m, n), (mb, nb) = self.shape, self.tile
        return min(mb, max(m, 1)), min(nb, max(n, 1))

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks."""
        return padded_bytes(self.shape, self.chunks, self.dtype)

    def region(self, i: int, j: int) -> Region:
        """Return rows and columns of tile (i, j); fewer ones for the last tiles."""
        (m, n), (mb, nb) = self.shape, self.tile
        return slice(i * mb, min(m, i * mb + mb)), slice(j * nb, min(n, j * nb + nb))

    def create(self, manifest: Manifest) -> None:
        """Create the array, uncompressed, with no chunk yet; the manifest is JSON."""
        import zarr

        with store_errors(self.store, "written"):
            # A folder gets its name when all of its metadata are there.
            draft = self.store if is_url(self.store) else f"{self.store}.draft"
            zarr.create_array(
                zarr_target(draft),
                name=self.member or None,
                shape=self.shape,
                dtype=self.dtype,
                chunks=self.chunks,
                # The low bits of a product look random: compressing takes time only.
                compressors=None,
                filters=None,
                fill_value=0,
                zarr_format=3,
                attributes={MANIFEST: manifest | {"id": self.id, COMPLETE: False}},
            )
            if draft != self.store:
                _sync_folders(draft)
                os.rename(draft, self.store)
                sync_path(os.path.dirname(self.store))

    def manifest(self) -> Manifest:
        """Return the manifest."""
        return read_manifest(self.open().attrs)

    def record(self, **more: Any) -> None:
        """Add to the manifest."""
        with store_errors(self.store, "written"):
            self.check_there()
            array = self.open()
            array.attrs[MANIFEST] = read_manifest(array.attrs) | more
            sync_object(os.path.join(self.array, "zarr.json"))

    def check_there(self) -> None:
        """Raise FileNotFoundError where this process does not find the array."""
        check_there(os.path.join(self.array, "zarr.json"))

    def write(self, i: int, j: int, tile: Array) -> None:
        """Write tile (i, j) of C to disk; refuse to where the array is gone."""
        if tile.size == 0:
            return
        with store_errors(self.store, "written"):
            if is_url(self.store):
                _open_once(self)[self.region(i, j)] = tile
                return
            # zarr makes the folders that it misses, of an array that is gone as well.
            self.check_there()
            self.open()[self.region(i, j)] = tile
            chunk = os.path.join(self.array, "c", str(i), str(j))
            try:
                sync_object(chunk)
            except BaseException:
                # It would be taken for finished.
                remove_tree(chunk)
                raise

    def read(self) -> Iterator[tuple[Region, Array]]:
        """Yield region and values of every tile."""
        array = self.open()
        for i in range(-(-self.shape[0] // self.tile[0])):
            for j in range(-(-self.shape[1] // self.tile[1])):
                region = self.region(i, j)
                yield region, array[region]

    def finished(self) -> set[Cell]:
        """Return the tiles that are stored.

        A chunk gets its name when it is written; one that was cut, or lost its end in
        a power failure, has another size.
        """
        whole = self.chunks[0] * self.chunks[1] * self.dtype.itemsize
        chunks = list_sizes(os.path.join(self.array, "c"))
        names = (_CHUNK.fullmatch(name) for name, x in chunks.items() if x == whole)
        return {(int(name[1]), int(name[2])) for name in names if name}

    def complete(self) -> None:
        """Remove what killed processes left among the chunks, and sync the rest."""
        with store_errors(self.store, "written"):
            top = os.path.join(self.array, "c")
            for name in list_sizes(top):
                chunk = os.path.join(top, name)
                if _CHUNK.fullmatch(name):
                    # A killed task may have written it and not synced it.
                    sync_object(chunk)
                else:
                    remove_tree(chunk)
            self.record(**{COMPLETE: True})
            if not is_url(self.store):
                _sync_folders(self.store)

    def open(self) -> Any:
        """Open the array, to read it or write to it."""
        import zarr

        array: Any = zarr.open_array(zarr_target(self.array), mode="r+", zarr_format=3)
        # zarr leaves out a chunk that equals the fill value, and takes a complex -0.0
        # for 0.0. `open_array` ignores the setting, and `with_config` is missing in
        # zarr 3.1.3.
        writable: Any = zarr.Array(
            zarr.AsyncArray(
                metadata=array.metadata,
                store_path=array.store_path,
                config={"write_empty_chunks": True},
            )
        )
        return writable


# To open an array takes ten requests.
_open_once = lru_cache(maxsize=4)(Output.open)


def _sync_folders(top: str) -> None:
    """Sync the lists of names, and the metadata."""
    for folder, _, names in os.walk(top):
        sync_path(folder)
        if "zarr.json" in names:
            sync_path(os.path.join(folder, "zarr.json"))


def new_id() -> str:
    """Return what no other output has."""
    return uuid.uuid4().hex[:12]


def read_manifest(attributes: Mapping[str, Any]) -> Manifest:
    """Return the manifest among the attributes of an array; empty if there is none."""
    found = attributes.get(MANIFEST, {})
    return dict(found) if isinstance(found, Mapping) else {}


def check_complete(name: str, attributes: Mapping[str, Any]) -> None:
    """Refuse to read an output that is still, or for ever, unfinished."""
    if read_manifest(attributes).get(COMPLETE) is False:
        raise StoreError(
            f"{name!r} is an unfinished output: tiles of it are missing",
            "Run its job again, which continues it",
            "input-unfinished",
        )


def open_output(store: str, member: str) -> tuple[Output, Manifest]:
    """Open an output that was begun, and its manifest, which may be empty."""
    import zarr

    path = os.path.join(store, member).rstrip("/")
    array = zarr.open_array(zarr_target(path), mode="r", zarr_format=3)
    shape, tile = cast("tuple[Pair, Pair]", (array.shape, array.chunks))
    manifest = read_manifest(cast("Mapping[str, Any]", array.attrs))
    id = str(manifest.get("id", ""))
    return Output(store, member, shape, tile, array.dtype, id), manifest
