"""An output on its way: a zarr array whose chunks are its finished tiles."""

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from twom_dist.errors import StoreError
from twom_dist.store._checks import padded_bytes, store_errors
from twom_dist.store._publish import remove, sync_path
from twom_dist.store._region import Region
from twom_dist.typing import Array, Cell

# Of the attributes of an array.
MANIFEST = "twom_dist"

Pair = tuple[int, int]


@dataclass(frozen=True)
class Output:
    """A zarr array that is written one tile at a time, one chunk each.

    It keeps no open file: a pickled copy writes to the same array, from any process
    that sees the same file system.

    Attributes
    ----------
    store : str
        Path of the zarr store.
    member : str
        Name of the array in it; empty if it is the array.
    shape : tuple of int
    tile : tuple of int
        Rows and columns.
    dtype : numpy.dtype
    """

    store: str
    member: str
    shape: tuple[int, int]
    tile: tuple[int, int]
    dtype: np.dtype[Any]

    @property
    def array(self) -> str:
        """Path of the array."""
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

    def create(self, manifest: dict[str, Any]) -> None:
        """Create the array, uncompressed, with no chunk yet; the manifest is JSON."""
        import zarr

        with store_errors(self.store, "written"):
            # It gets its name when all of its metadata are there.
            draft = f"{self.store}.draft"
            zarr.create_array(
                Path(draft),
                name=self.member or None,
                shape=self.shape,
                dtype=self.dtype,
                chunks=self.chunks,
                # The low bits of a product look random: compressing takes time only.
                compressors=None,
                filters=None,
                fill_value=0,
                zarr_format=3,
                attributes={MANIFEST: manifest | {"id": os.path.basename(self.store)}},
            )
            for folder, _, names in os.walk(draft):
                for path in (folder, *(os.path.join(folder, x) for x in names)):
                    sync_path(path)
            os.rename(draft, self.store)
            sync_path(os.path.dirname(self.store))

    def write(self, i: int, j: int, tile: Array) -> None:
        """Write tile (i, j) of C to disk; refuse to where the array is gone."""
        if tile.size == 0:
            return
        with store_errors(self.store, "written"):
            # zarr makes the folders that it misses, of an array that is gone as well.
            os.stat(os.path.join(self.array, "zarr.json"))
            self._open()[self.region(i, j)] = tile
            try:
                sync_path(self._chunk(i, j))
            except BaseException:
                # It would be taken for finished.
                remove(self._chunk(i, j))
                raise

    def read(self) -> Iterator[tuple[Region, Array]]:
        """Yield region and values of every tile."""
        array = self._open()
        for i in range(-(-self.shape[0] // self.tile[0])):
            for j in range(-(-self.shape[1] // self.tile[1])):
                region = self.region(i, j)
                yield region, array[region]

    def finished(self) -> set[Cell]:
        """Return the tiles that are on disk.

        A chunk gets its name when it is written; one that was cut, or lost its end in
        a power failure, has another size.
        """
        size = self.chunks[0] * self.chunks[1] * self.dtype.itemsize
        found = set()
        for row in _list(os.path.join(self.array, "c")):
            for chunk in _list(row.path):
                digits = row.name.isdecimal() and chunk.name.isdecimal()
                if digits and chunk.stat().st_size == size:
                    found.add((int(row.name), int(chunk.name)))
        return found

    def complete(self) -> None:
        """Remove what killed processes left among the chunks, and sync the rest."""
        with store_errors(self.store, "written"):
            top = os.path.join(self.array, "c")
            for row in _list(top):
                for chunk in _list(row.path):
                    if chunk.name.isdecimal():
                        # A killed task may have written it and not synced it.
                        sync_path(chunk.path)
                    else:
                        os.unlink(chunk.path)
                sync_path(row.path)
            for folder in filter(os.path.exists, (top, self.array, self.store)):
                sync_path(folder)

    def _chunk(self, i: int, j: int) -> str:
        return os.path.join(self.array, "c", str(i), str(j))

    def _open(self) -> Any:
        import zarr

        array: Any = zarr.open_array(Path(self.array), mode="r+", zarr_format=3)
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


def new_store(folder: str) -> str:
    """Return the path of a store that nobody has written to before."""
    return os.path.join(folder, f"{uuid.uuid4().hex[:12]}.zarr")


def find_output(folder: str, member: str) -> tuple[Output, dict[str, Any]] | None:
    """Find the array of a folder, if there is one, and its manifest."""
    import zarr

    for entry in _list(folder):
        if not entry.name.endswith(".zarr"):
            continue
        path = os.path.join(entry.path, member)
        try:
            array = zarr.open_array(Path(path), mode="r", zarr_format=3)
            manifest = cast("dict[str, Any]", array.attrs.get(MANIFEST, {}))
        # A damaged file makes zarr raise errors of every kind.
        except Exception as error:
            raise StoreError(
                f"what is unfinished in {folder!r} holds no array {member!r} that can "
                f"be continued ({type(error).__name__})",
                "Name the output as before, or start anew with overwrite",
                "unfinished-damaged",
            ) from error
        # What an output has replaced lies here under its name until it is removed.
        if manifest.get("id") != entry.name:
            continue
        shape, tile = cast("tuple[Pair, Pair]", (array.shape, array.chunks))
        return Output(entry.path, member, shape, tile, array.dtype), manifest
    return None


def _list(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    # What cannot be listed is refused when it is written to.
    except OSError:
        return []
