"""The int8 planes of one operand on a device, and planes that threads share.

Memory that is freed returns at once to the stream that allocated it: CuPy's pool does
not know who reads it (cupy/cupy#8068). What a thread writes there next comes after its
own reads, but not after reads by other threads. So a thread that takes planes of
another thread waits on the device until they are made, and keeps them until the host
has waited for its launches.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

from ...moduli import ResidueSystem
from ...typing import Array
from .device import CudaDevice

MOST_KEPT = 4  # planes of others that a task keeps before it waits: two products'


@dataclass(frozen=True)
class CudaEncoded:
    """Planes of either side, K-major, as the tensor cores want both."""

    rows: int
    k: int
    # (planes, padded rows, padded k) int8: zeros in the padding. Matrices of a stack
    # lie one below the other.
    planes: Array
    order: tuple[int, ...]  # where each plane stands in `planes`
    stack: tuple[int, ...] = ()  # axes in front of the matrices
    # The stream that makes the planes, and the event when it has
    made: tuple[Any, Any] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return *self.stack, self.rows, self.k

    def by_matrix(self) -> Array:
        """View the planes as (planes, matrices, padded rows, padded k)."""
        planes, rows, k = self.planes.shape
        count = prod(self.stack)
        return self.planes.reshape(planes, count, rows // max(1, count), k)

    @property
    def nbytes(self) -> int:
        return int(self.planes.nbytes)

    def reorder(self, planes: tuple[int, ...]) -> "CudaEncoded":
        return replace(self, order=tuple(self.order[plane] for plane in planes))


class PlaneProducts(NamedTuple):
    """Products of planes, all of a system or `own`; residues `before` are added."""

    left: CudaEncoded
    right: CudaEncoded
    system: ResidueSystem
    residues: Array
    before: Array | None = None
    own: tuple[int, ...] = ()


class _Task(threading.local):
    """Planes of others that the task of this thread reads; None outside of tasks."""

    kept: list[Any] | None = None


class SharedPlanes:
    """Planes that the threads of a device share: tasks, as an engine has them."""

    device: CudaDevice
    _task = _Task()

    def publish(self, encoded: Any) -> Any:
        """Let other streams know when the planes are made."""
        made = self.device.stream_id(), self.device.record()
        return replace(encoded, made=made)

    def retain(self, encoded: Any) -> Any:
        """Wait on the device for planes of another stream, and keep them."""
        stream, event = encoded.made or (None, None)
        if encoded.made is None or stream == self.device.stream_id():
            return encoded
        self.device.wait_for(event)
        kept = self._task.kept
        if kept is not None:
            if len(kept) >= MOST_KEPT:
                self.device.synchronize()
                kept.clear()
            kept.append(encoded)
        return encoded

    @contextmanager
    def task(self) -> Iterator[None]:
        """Enter this thread's stream, and wait for it on exit.

        dask takes a result that is there for done. What was kept is released.
        """
        outer, self._task.kept = self._task.kept, []
        try:
            with self.device.stream():
                try:
                    yield
                except BaseException as error:
                    try:
                        self.device.synchronize()
                    except Exception as later:  # of what the block launched before
                        raise error from later
                    raise
                else:
                    self.device.synchronize()
        finally:
            self._task.kept = outer
