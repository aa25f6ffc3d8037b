"""zarr arrays and HDF5 datasets as lazy dask arrays, cut along their stored chunks."""

from math import prod
from typing import Any
from uuid import uuid4

import numpy as np

from ..errors import ArgumentError, StoreError, portable_errors
from ..plan import LARGEST_TILE, SMALLEST_TILE
from ..problem.matrices import dask_array
from ..store._location import make_absolute
from ..workers.client import current_client, current_cluster

# Chunks up to this side become tiles, though larger than those that plans choose.
_LARGEST_CHUNK = 2 * LARGEST_TILE
# Tiles for which a worker has room in a product that reads as it goes, for each of its
# threads, as plans count it: 15.2 to 15.4 for gemm and herk with 16 moduli.
_TILES_OF_THREAD = 16
_IN_MEMORY = ("core", "fileobj")  # where HDF5 keeps files that nobody else can open


class SharedDataset:
    """An HDF5 dataset that other processes open by its path, in the tasks that read it.

    distributed would open it while unpacking a graph, by a path that may be relative,
    and a worker that does not find the file dies.
    """

    def __init__(self, dataset: Any) -> None:
        self.path, self.name = make_absolute(dataset.file.filename), dataset.name
        self.shape, self.dtype, self.ndim = dataset.shape, dataset.dtype, dataset.ndim
        self._token = uuid4().hex  # the file may change
        self._dataset = dataset

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_dataset": None}

    def __dask_tokenize__(self) -> str:
        return self._token

    def __getitem__(self, index: Any) -> Any:
        if self._dataset:  # false once its file is closed
            return self._dataset[index]
        import h5py

        with portable_errors():
            try:
                with h5py.File(self.path, "r") as file:
                    return file[self.name][index]
            except (OSError, KeyError) as error:
                problem = f"cannot read {self.name!r} of {self.path!r}: {error}"
                remedy = "Keep the file where all workers find it"
                raise StoreError(problem, remedy, "file-not-on-worker") from error


def is_on_disk(x: Any) -> bool:
    """Tell what comes from zarr or h5py without importing them."""
    return type(x).__module__.split(".")[0] in ("zarr", "h5py")


def open_lazily(x: Any, name: str) -> Any:
    """Make a dask array that reads an array of zarr or h5py when it is computed."""
    _check(x, name)
    chunks = _choose_chunks(x)
    meta = np.empty((0,) * len(x.shape), x.dtype)
    if type(x).__module__.startswith("h5py"):
        x = SharedDataset(x)
    given = {"chunks": chunks, "inline_array": True, "meta": meta}
    whole = dask_array().from_array(x, **given)
    # Long strips are read once and then cut: each tile would read parts of many.
    if max(chunks[-2:], default=0) <= _LARGEST_CHUNK:
        return whole
    cut = *chunks[:-2], *(LARGEST_TILE for _ in chunks[-2:])
    return whole.rechunk(cut, method="tasks")


def _check(x: Any, name: str) -> None:
    """Refuse anything but arrays, and files that the workers could not read."""
    kind = type(x)
    library = kind.__module__.split(".")[0]
    if not (hasattr(kind, "chunks") and hasattr(kind, "__getitem__")):
        problem = f"{name} is a {library}.{kind.__name__}, not an array"
        raise ArgumentError(problem, "Give an array in it", "not-a-matrix")
    if library != "h5py":
        return
    if not x or x.shape is None:
        state, remedy = "is empty", "Give one that holds a matrix"
        if not x:
            state = "belongs to a closed file"
            remedy = "Open the file again, and keep it open, or give its path to a job"
        problem = f"{name} is a dataset of HDF5 that {state}"
        raise ArgumentError(problem, remedy, "not-a-matrix")
    shared = x.file.mode == "r" and x.file.driver not in _IN_MEMORY
    if current_client() is not None and not shared:
        raise ArgumentError(
            f"{name} is an array in memory or of a file that is open for writing, "
            "which other processes cannot read",
            "Open it on disk with mode 'r'",
            "open-file",
        )


def _choose_chunks(x: Any) -> tuple[int, ...]:
    """Choose whole multiples of the stored chunks, near the tiles that plans choose.

    Rows and columns grow first, to at most the largest tile each and its square in
    entries, then the axes that they are stacked along.
    """
    cluster, largest = current_cluster(), LARGEST_TILE
    if (room := cluster.memory.tile_bytes) is not None:
        # What the client's workers can take; integers may become doubles.
        entry = _TILES_OF_THREAD * cluster.threads * max(8, x.dtype.itemsize)
        while largest > SMALLEST_TILE and largest**2 > room // entry:
            largest //= 2
    stored = getattr(x, "shards", None) or x.chunks or (1,) * len(x.shape)
    sizes = [max(1, size) for size in x.shape]
    chunks = [max(1, min(pair)) for pair in zip(stored, sizes, strict=True)]
    for axis in reversed(range(len(chunks))):
        chunk = chunks[axis]
        room = min(largest // chunk, largest**2 // prod(chunks))
        chunks[axis] *= max(1, min(room, -(-sizes[axis] // chunk)))
    return tuple(chunks)
