"""Memory for planes and residues, used again by the next product.

New pages are faulted in and zeroed: 29 MB of new pages took 5 of the 29 ms of a 512^3
product with 16 moduli (Zen 4, 2 threads, a virtual machine).
"""

import os
import threading
from math import prod
from typing import Any
from weakref import ReferenceType, ref

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
    """Memory not in use, the least recently taken first, within a limit.

    It is told when it is taken that it is to be kept, and found to be free when the
    next one is: a method `__del__` would swallow a Ctrl-C that arrives there.
    """

    def __init__(self) -> None:
        self._limit = 0
        self.renew()

    def renew(self) -> None:
        """Begin with nothing: a forked child may find the lock held, by no thread."""
        # Reentrant: the handler of a signal may multiply as well.
        self._lock = threading.RLock()
        self._memory: dict[int, Array] = {}
        # With the view of it that is alive as long as it is in use.
        self._lent: dict[int, tuple[ReferenceType[Any], Array]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes that the next product may take."""
        with self._lock:
            self._collect()
            return sum(memory.nbytes for memory in self._memory.values())

    def limit(self, nbytes: int) -> None:
        """Keep no more than this from now on, with what is in use."""
        with self._lock:
            self._limit = nbytes
            self._collect()
            self._make_room(0)

    def take(self, nbytes: int, limit: int) -> Array | None:
        """Return the most recently used memory of a size; keep less from now on."""
        with self._lock:
            self._collect()
            if limit != self._limit:
                self.limit(limit)
            for key in reversed(self._memory):
                if self._memory[key].nbytes == nbytes:
                    return self._memory.pop(key)
        return None

    def lend(self, memory: Array) -> Array:
        """Return a view, after which the memory is kept if there is room for it."""
        block = memory.view(_Block)
        with self._lock:
            if self._make_room(memory.nbytes):
                self._lent[id(memory)] = ref(block), memory
        return block

    def _collect(self) -> None:
        """Find memory to take again: no view of it is left."""
        for key, (block, memory) in [*self._lent.items()]:
            if block() is None:
                self._memory[key] = memory
                del self._lent[key]

    def _make_room(self, nbytes: int) -> bool:
        """Let go of what was not used for longest; tell whether that is enough."""
        lent = sum(memory.nbytes for _, memory in self._lent.values())
        left: int = self._limit - lent - nbytes
        while self._memory and sum(x.nbytes for x in self._memory.values()) > left:
            del self._memory[next(iter(self._memory))]
        return left >= 0


kept = KeptBuffers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=kept.renew)


class _Memory(np.ndarray[Any, Any]):
    """Memory that is kept.

    It has its own type: views of arrays of one type refer to the first of them,
    and would let go of a block in between.
    """


class _Block(_Memory):
    """A view of memory that lives as long as any array made of it."""


def empty_lines(nbytes: int) -> Array:
    """Return new memory from a whole line of the cache on.

    Vectors and rows of tiles of 64 bytes that lie across lines are read twice.
    """
    memory = np.empty(nbytes + _LINE - 1, np.uint8)
    first = -memory.__array_interface__["data"][0] % _LINE
    return memory[first : first + nbytes]


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
    return kept.lend(empty_lines(size).view(_Memory) if memory is None else memory)
