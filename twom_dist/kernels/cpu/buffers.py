"""Memory for planes and residues, used again by the next product.

Fresh pages are faulted in and zeroed: 29 MB of them took 5 of the 29 ms of a 512^3
product with 16 moduli (Zen 4, 2 threads, a virtual machine).
"""

import os
import threading
from math import prod
from typing import Any

import numpy as np

from ...config import bytes_setting
from ...typing import Array
from .threads import in_task

# Kept where the setting is null: planes and residues of products of 4096, and less by a
# task of dask, on whose worker other tasks need memory.
REUSE_BYTES, TASK_REUSE_BYTES = 1 << 30, 1 << 28
# Below, malloc reuses memory by itself.
_SMALLEST_BYTES = 1 << 20
_LINE = 64


class KeptBuffers:
    """Memory that nobody holds, the least recently used first, within a limit."""

    def __init__(self) -> None:
        self._limit = 0
        self.renew()

    def renew(self) -> None:
        """Begin with nothing: a forked child may find the lock held, by no thread."""
        # Reentrant: garbage collection may give memory back while we hold the lock.
        self._lock = threading.RLock()
        self._memory: dict[int, Array] = {}
        self.nbytes = 0

    def limit(self, nbytes: int) -> None:
        """Keep no more than this from now on: `give` may run when modules are gone."""
        with self._lock:
            self._limit = nbytes
            self._shrink()

    def take(self, nbytes: int, limit: int) -> Array | None:
        """Return the most recently used memory of a size; keep less from now on."""
        with self._lock:
            if limit != self._limit:
                self.limit(limit)
            for key in reversed(list(self._memory)):
                memory = self._memory.get(key)
                if memory is not None and memory.nbytes == nbytes:
                    self._remove(key)
                    return memory
        return None

    def give(self, memory: Array) -> None:
        """Keep memory, and let go of what was not used for longest to make room."""
        if memory.nbytes > self._limit:
            return
        with self._lock:
            self._memory[id(memory)] = memory
            self.nbytes += memory.nbytes
            if self.nbytes > self._limit:
                self._shrink()

    def _shrink(self) -> None:
        while self._memory and self.nbytes > self._limit:
            self._remove(next(iter(self._memory)))

    def _remove(self, key: int) -> None:
        # First: garbage collection may give memory back here, and count it.
        memory = self._memory.pop(key)
        self.nbytes -= memory.nbytes


kept = KeptBuffers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=kept.renew)


def kept_bytes() -> int:
    """Return the bytes that the next product finds."""
    return kept.nbytes


class _Memory(np.ndarray[Any, Any]):
    """Memory that is kept.

    It has a type of its own: views of arrays of one type refer to the first of them,
    and would let go of a block in between.
    """


class _Block(_Memory):
    """A view of memory that lives as long as any array made of it."""

    def __del__(self) -> None:
        kept.give(self.base)


def _lines(nbytes: int) -> Array:
    """Return new memory from a whole line of the cache on.

    Vectors and rows of tiles of 64 bytes that lie across lines are read twice.
    """
    memory = np.empty(nbytes + _LINE - 1, np.uint8)
    first = -memory.__array_interface__["data"][0] % _LINE
    return memory[first : first + nbytes].view(_Memory)


def empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an uninitialised C-contiguous array, of memory used before if there is."""
    dtype = np.dtype(dtype)
    return np.ndarray(shape, dtype, take_bytes(prod(shape) * dtype.itemsize))


def take_bytes(nbytes: int) -> Array:
    """Return memory for arrays of this size, or more; they keep it while they live."""
    if nbytes < _SMALLEST_BYTES:
        return np.empty(nbytes, np.uint8)
    # Sizes in steps of an eighth: ragged tiles find each other's memory.
    step = 1 << (nbytes.bit_length() - 4)
    size = -(-nbytes // step) * step
    default = TASK_REUSE_BYTES if in_task() else REUSE_BYTES
    memory = kept.take(size, bytes_setting("reuse-bytes", default))
    if memory is None:
        memory = _lines(size)
    return memory.view(_Block)
