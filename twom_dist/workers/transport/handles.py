"""Blocks on a device: sent by CUDA handles, or through pinned memory of the host.

The receiver copies a block from the sender's memory while the sender holds it, and then
checks that the sender still held it, so reused memory is never taken for the block.
"""

import ctypes
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ESTALE
from functools import cached_property
from pathlib import Path
from threading import Condition
from typing import Any, NamedTuple

import numpy as np

from ...typing import Array
from .leases import Lease, LeaseEndedError, Ticket, is_held

# Allocations of other processes that stay open. A pool (RMM) is one; without one each
# block may be one, whose memory its owner cannot return while it is open here.
_MOST_OPEN = 32
_BUFFER_ID = 7  # CU_POINTER_ATTRIBUTE_BUFFER_ID


class Export(NamedTuple):
    """The place of a block: within an allocation, which `serial` tells from later ones.

    `event`: what has to be waited for before the block is read.
    """

    handle: bytes
    serial: int
    offset: int
    event: bytes


class _Queue(NamedTuple):
    """The stream of a device, and a byte there that may be written at any time."""

    stream: Any
    byte: Array


class Ipc:
    """Calls of CUDA, on a stream of each device; blocks are flat arrays of bytes.

    These streams begin behind the default one, by CUDA's own rule for a stream that is
    not `non_blocking`: programs of users launch there, and dask takes what they return
    for done. They wait for no other stream: tasks that launch elsewhere, as ours do,
    have waited before anybody sees what they made. An event of the default stream would
    come after all products that are queued, and hold back those launched later.
    """

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}

    @cached_property
    def _cupy(self) -> Any:
        import cupy

        return cupy

    def device(self) -> int:
        """Return the number of this thread's device."""
        return int(self._cupy.cuda.runtime.getDevice())

    def _queue(self) -> _Queue:
        """Return the current device's, behind what users have launched."""
        cupy, device = self._cupy, self.device()
        if device not in self._queues:
            made = _Queue(cupy.cuda.Stream(), cupy.empty(1, "u1"))
            self._queues.setdefault(device, made)
        found = self._queues[device]
        if cupy.cuda.get_current_stream().ptr == cupy.cuda.runtime.streamPerThread:
            # Users launch on the default streams of their threads: only the one that
            # waits for every stream comes after these.
            event = cupy.cuda.Event(disable_timing=True)
            event.record(cupy.cuda.Stream.null)
            found.stream.wait_event(event)
        return found

    def export(self, flat: Array) -> tuple[Export, Any]:
        """Say where a block is, and return what must live until others have it."""
        cupy, runtime = self._cupy, self._cupy.cuda.runtime
        with flat.device:
            stream, byte = self._queue()
            # Work that the rule above orders, as an event alone need not be; and the
            # driver's context becomes current.
            runtime.memsetAsync(byte.data.ptr, 0, 1, stream.ptr)
            event = cupy.cuda.Event(disable_timing=True, interprocess=True)
            event.record(stream)
            driver, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64(flat.data.ptr)
            base, size, serial = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_uint64()
            failed = driver.cuMemGetAddressRange_v2(
                ctypes.byref(base), ctypes.byref(size), at
            ) or driver.cuPointerGetAttribute(ctypes.byref(serial), _BUFFER_ID, at)
            if failed:
                raise OSError(f"CUDA knows no allocation of a block (error {failed})")
            export = Export(
                bytes(runtime.ipcGetMemHandle(base.value)),
                serial.value,
                flat.data.ptr - base.value,
                bytes(runtime.ipcGetEventHandle(event.ptr)),
            )
        return export, (flat, event)

    def open(self, handle: bytes) -> int:
        """Return the address here of an allocation of another process."""
        return int(self._cupy.cuda.runtime.ipcOpenMemHandle(handle))

    def close(self, device: int, address: int) -> None:
        """Return an allocation of another process that was opened on a device."""
        with self._cupy.cuda.Device(device):
            self._cupy.cuda.runtime.ipcCloseMemHandle(address)

    def copy(self, address: int, event: bytes, nbytes: int) -> Array:
        """Copy a block to the current device once its event has come, and wait."""
        runtime = self._cupy.cuda.runtime
        out, stream = self.empty(nbytes), self._queue().stream
        before = runtime.ipcOpenEventHandle(event)
        try:
            runtime.streamWaitEvent(stream.ptr, before)
            kind = runtime.memcpyDefault
            runtime.memcpyAsync(out.data.ptr, address, nbytes, kind, stream.ptr)
            stream.synchronize()
        finally:
            runtime.eventDestroy(before)
        return out

    def empty(self, nbytes: int) -> Array:
        """Allocate a block that the stream of this device may write.

        Its memory returns to that stream, whose next block comes after users' readings.
        """
        with self._queue().stream:
            return self._cupy.empty(nbytes, "u1")

    def pinned(self, nbytes: int) -> Array:
        """Allocate memory of the host that devices copy from and to without a stop."""
        memory = self._cupy.cuda.alloc_pinned_memory(nbytes)
        return np.frombuffer(memory, np.uint8, nbytes)

    def fetch(self, flat: Array, out: Array) -> None:
        """Copy a block to the host, and wait."""
        with flat.device:
            stream = self._queue().stream
            flat.get(stream=stream, out=out)
            stream.synchronize()

    def put(self, flat: Array, out: Array) -> None:
        """Copy bytes of the host into a block, and wait."""
        with out.device:
            stream = self._queue().stream
            out.set(flat, stream=stream)
            stream.synchronize()


@dataclass
class _Open:
    """An allocation of another process: its address here, and who reads it now."""

    address: int
    readers: int = 0


# The device that opened it, its owner, its serial and its handle.
_Key = tuple[int, int, int, bytes]


class Opened:
    """Allocations of other processes that are open here: those used last.

    And copies of their blocks that no message has named yet, by tickets.
    """

    def __init__(self, ipc: Ipc) -> None:
        self.ipc = ipc
        self._arrived: dict[bytes, tuple[Array, int]] = {}
        self._open: OrderedDict[_Key, _Open] = OrderedDict()
        self._changed = Condition()

    def copy(self, owner: Ticket, export: Export) -> Array:
        """Copy a block that its owner still holds when the copy has been made."""
        key = self.ipc.device(), owner.process, export.serial, export.handle
        with self._read(key) as base:
            at = base + export.offset
            found = self.ipc.copy(at, export.event, owner.nbytes)
        if not is_held(owner):
            raise LeaseEndedError(ESTALE, "the sender let go of a block too early")
        return found

    def bring(self, ticket: bytes, owner: Ticket, export: Export) -> None:
        """Copy a block, and keep it for the message that names it."""
        self._arrived[ticket] = self.copy(owner, export), owner.process
        # No message of a sender that has gone will take these.
        for other, (_, process) in [*self._arrived.items()]:
            if not Path(f"/proc/{process}").exists():
                self.drop([other])

    def take(self, ticket: bytes) -> Array | None:
        """Return a block that was brought: the caller's from now on."""
        block, _ = self._arrived.pop(ticket, (None, 0))
        return block

    def drop(self, tickets: Iterable[bytes]) -> None:
        """Forget blocks that no message will take."""
        for ticket in tickets:
            self._arrived.pop(ticket, None)

    @contextmanager
    def _read(self, key: _Key) -> Iterator[int]:
        """Open an allocation, which stays open while it is read."""
        with self._changed:
            if key not in self._open:
                self._make_room(key)
            if key not in self._open:  # no other thread has opened it meanwhile
                self._open[key] = _Open(self.ipc.open(key[-1]))
            self._open.move_to_end(key)
            found = self._open[key]
            found.readers += 1
        try:
            yield found.address
        finally:
            with self._changed:
                found.readers -= 1
                self._changed.notify_all()

    def _make_room(self, wanted: _Key) -> None:
        """Close what was replaced, left by its owner, or unused for longest."""
        device, process, _, handle = wanted
        for key, found in [*self._open.items()]:
            replaced = (key[0], key[1], key[3]) == (device, process, handle)
            full = len(self._open) >= _MOST_OPEN
            left = full or not Path(f"/proc/{key[1]}").exists()
            if replaced or (left and not found.readers):
                self._close(key, found)

    def _close(self, key: _Key, found: _Open) -> None:
        """Close an allocation after its last read."""
        self._changed.wait_for(lambda: not found.readers)
        if self._open.get(key) is found:  # no other thread has closed it meanwhile
            del self._open[key]
            self.ipc.close(key[0], found.address)

    def close(self) -> None:
        """Close all, once they have been read, and forget what was brought."""
        self._arrived.clear()
        with self._changed:
            for key, found in [*self._open.items()]:
                self._close(key, found)


opened = Opened(Ipc())


@contextmanager
def lend(blocks: Iterable[Array]) -> Iterator[list[tuple[Ticket, Export]]]:
    """Say where flat blocks of this device are, while others copy them."""
    lent = [(Lease(x.size), *opened.ipc.export(x)) for x in blocks]
    try:
        yield [(lease.ticket, export) for lease, export, _ in lent]
    finally:
        for lease, *_ in lent:
            lease.close()
