"""An unfinished output: a zarr array whose chunks are its finished tiles."""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import StoreError
from ..typing import Array, Cell
from . import _tree as tree
from ._errors import store_errors
from ._matrix import Region

MANIFEST = "twom_dist"  # name of the manifest among the attributes of an array
COMPLETE = "complete"  # name of the entry that is True once the array is whole
# Name of the entry that describes the latest run: host, time, and command.
RUN = "run"
_DIGEST = "digest"
_CHUNK = re.compile(r"(\d+)/(\d+)")
_CHECKSUM_BYTES = 4  # size of the checksum that zarr's codec crc32c adds to each chunk

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Output:
    """A zarr array that is written tile by tile, each into its own chunk.

    It holds no open file: a pickled copy writes to the same array, from any process
    that sees the same file system.
    """

    store: str  # path of the zarr store
    member: str  # name of the array in the store; empty if the store is the array
    shape: tuple[int, int]
    tile: tuple[int, int]  # at most those of the matrix: chunks are stored whole
    dtype: np.dtype[Any]
    id: str  # differs from those of outputs that other runs make in this place

    @property
    def array(self) -> str:
        """Path of the array."""
        return os.path.join(self.store, self.member).rstrip("/")

    @property
    def counts(self) -> tuple[int, int]:
        """Number of tiles along rows and columns."""
        (m, n), (mb, nb) = self.shape, self.tile
        return -(-m // mb), -(-n // nb)

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks without their checksums."""
        return math.prod((*self.counts, *self.tile)) * self.dtype.itemsize

    def _chunk(self, i: int, j: int) -> str:
        return os.path.join(self.array, "c", str(i), str(j))

    def region(self, i: int, j: int) -> Region:
        """Return the rows and columns of tile (i, j); the last tiles have fewer."""
        (m, n), (mb, nb) = self.shape, self.tile
        return slice(i * mb, min(m, i * mb + mb)), slice(j * nb, min(n, j * nb + nb))

    def create(self, manifest: Manifest) -> None:
        """Create the array, uncompressed, without chunks; the manifest must be JSON."""
        import zarr
        from zarr.codecs import Crc32cCodec

        manifest = manifest | {"id": self.id, COMPLETE: False}
        with store_errors(self.store, "written"):
            # A folder gets its name once all of its metadata is there.
            draft = f"{self.store}.draft"
            zarr.create_array(
                Path(draft),
                name=self.member or None,
                shape=self.shape,
                dtype=self.dtype,
                chunks=self.tile,
                # The low bits of a product look random: compressing only costs time.
                compressors=[Crc32cCodec()],
                filters=None,
                fill_value=0,
                zarr_format=3,
                attributes={MANIFEST: self._seal(manifest)},
            )
            tree.sync_all(draft)
            os.rename(draft, self.store)
            tree.sync(os.path.dirname(self.store))

    def record(self, **more: Any) -> None:
        """Add entries to the manifest."""
        with store_errors(self.store, "written"):
            array = self.open()
            array.attrs[MANIFEST] = self._seal(read_manifest(array.attrs) | more)
            tree.sync(os.path.join(self.array, "zarr.json"))

    def _seal(self, manifest: Manifest) -> Manifest:
        """Return a manifest with a digest of itself and of the array's header."""
        header = self.shape, self.tile, np.dtype(self.dtype).str
        text = json.dumps([*header, manifest], sort_keys=True)
        return manifest | {_DIGEST: sha256(text.encode()).hexdigest()}

    def write(self, i: int, j: int, tile: Array) -> None:
        """Write tile (i, j) of C to disk; raise StoreError if the array is gone."""
        if tile.size == 0:
            return
        with store_errors(self.store, "written"):
            self.open()[self.region(i, j)] = tile
            chunk = self._chunk(i, j)
            try:
                tree.sync(chunk)
            except BaseException:
                # A chunk that may not be on disk must not count as finished.
                tree.remove(chunk)
                raise

    def __getitem__(self, region: Region) -> Array:
        """Read a rectangle; raise StoreError if a chunk is not what was written."""
        with store_errors(self.store, "read"):
            array = self.open()
            try:
                found: Array = array[region]
            except ValueError as error:
                raise StoreError(
                    f"a tile in {self.store!r} is not what was written ({error})",
                    "Check the disk, then run the same job again, which recomputes "
                    "such tiles",
                    "tile-damaged",
                ) from error
        return found

    def read(self) -> Iterator[tuple[Region, Array]]:
        """Yield the region and the values of every tile."""
        for i, j in product(*map(range, self.counts)):
            region = self.region(i, j)
            yield region, self[region]

    def check(self, i: int, j: int) -> None:
        """Read tile (i, j); remove it if it is damaged, so that it is unfinished."""
        try:
            self[self.region(i, j)]
        except StoreError as error:
            if error.code != "tile-damaged":
                raise
            tree.remove(self._chunk(i, j))

    def list_finished(self) -> set[Cell]:
        """Return the tiles that are stored."""
        return {*self.find_times()}

    def find_times(self) -> dict[Cell, float]:
        """Return for each tile that is stored when it was written.

        A chunk gets its name once it is written; one that was cut short, or lost its
        end in a power failure, has another size.
        """
        with store_errors(self.store, "read"):
            files = [*tree.stat_files(os.path.join(self.array, "c"))]
        whole = math.prod(self.tile) * self.dtype.itemsize + _CHECKSUM_BYTES
        found = {}
        for x in files:
            place = _CHUNK.fullmatch(x.name) if x.size == whole else None
            # A link may lead to anything.
            if place and not os.path.islink(os.path.join(self.array, "c", x.name)):
                found[int(place[1]), int(place[2])] = x.modified
        return found

    def complete(self) -> None:
        """Remove files that killed processes left among the chunks; sync the others."""
        with store_errors(self.store, "written"):
            top = os.path.join(self.array, "c")
            for name in tree.list_files(top):
                if not _CHUNK.fullmatch(name):
                    tree.remove(os.path.join(top, name))
            self.record(**{COMPLETE: True})
            # A killed task may have written a chunk without syncing it.
            tree.sync_all(self.store)

    def open(self) -> Any:
        """Open the array for reading and writing."""
        import zarr

        array = tree.open_array(self.array, "r+", zarr_format=3)
        # By default zarr omits chunks of the fill value, and takes a complex -0.0 for
        # 0.0. `open_array` ignores the setting; zarr 3.1.3 has no `with_config`.
        config: Any = {"write_empty_chunks": True}
        own = zarr.AsyncArray(array.metadata, array.store_path, config)
        return zarr.Array(own)


def read_manifest(attributes: Mapping[str, Any]) -> Manifest:
    """Return the manifest among the attributes of an array; empty if it has none."""
    found = attributes.get(MANIFEST)
    if not isinstance(found, Mapping) or "id" not in found:
        return {}
    return {name: x for name, x in found.items() if name != _DIGEST}


def read_notes(attributes: Mapping[str, Any]) -> Manifest:
    """Return a manifest that a job wrote; empty for what others gave its name."""
    found = read_manifest(attributes)
    parts = (found.get(name) for name in ("made", "accuracy", "inputs"))
    return found if all(isinstance(x, Mapping) for x in parts) else {}


def open_output(store: str, member: str) -> tuple[Output, Manifest]:
    """Open an output that was begun, with its manifest; raise any error if it fails."""
    array = tree.open_array(os.path.join(store, member).rstrip("/"), zarr_format=3)
    manifest = read_manifest(array.attrs)
    id = str(manifest.get("id", ""))
    output = Output(store, member, array.shape, array.chunks, array.dtype, id)
    if output._seal(manifest) != array.attrs.get(MANIFEST):
        raise ValueError("its manifest is missing or damaged")
    return output, manifest
