"""Blocks on a device: by handles of CUDA's, or by memory of the host.

The receiver copies a block out of the sender's memory while the sender holds it, and
asks afterwards whether it still did: memory that was used again cannot pass for the
block.
"""

import ctypes
from collections import OrderedDict
from errno import ESTALE
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from ...typing import Array
from .leases import LeaseEndedError, Ticket, is_held

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


class Ipc:
    """Calls of CUDA, on a stream of their own; blocks are flat arrays of bytes."""

    @cached_property
    def _stream(self) -> Any:
        import cupy

        return cupy.cuda.Stream(non_blocking=True)

    def _record(self, interprocess: bool = False) -> Any:
        """Record an event behind all that others have launched.

        The null stream waits for every stream that is not `non_blocking`; for kernels
        on one that is, the task waits that launched them.
        """
        import cupy

        event = cupy.cuda.Event(disable_timing=True, interprocess=interprocess)
        event.record(cupy.cuda.Stream.null)
        return event

    def export(self, flat: Array) -> tuple[Export, Any]:
        """Say where a block is, and return what must live until others have it."""
        from cupy.cuda import runtime

        event = self._record(interprocess=True)  # makes the driver's context current
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
        from cupy.cuda import runtime

        return int(runtime.ipcOpenMemHandle(handle))

    def close(self, address: int) -> None:
        """Return an allocation of another process."""
        from cupy.cuda import runtime

        runtime.ipcCloseMemHandle(address)

    def copy(self, address: int, event: bytes, nbytes: int) -> Array:
        """Copy a block to the current device once its event has come, and wait."""
        import cupy
        from cupy.cuda import runtime

        out, stream = cupy.empty(nbytes, "u1"), self._stream
        # The pool may have given memory that kernels of its last owner still use.
        stream.wait_event(self._record())
        before = runtime.ipcOpenEventHandle(event)
        try:
            runtime.streamWaitEvent(stream.ptr, before)
            where = out.data.ptr, address, nbytes
            runtime.memcpyAsync(*where, runtime.memcpyDefault, stream.ptr)
            stream.synchronize()
        finally:
            runtime.eventDestroy(before)
        return out

    def fetch(self, flat: Array, out: Array) -> None:
        """Copy a block to the host, and wait."""
        self._stream.wait_event(self._record())
        flat.get(stream=self._stream, out=out)
        self._stream.synchronize()

    def send(self, flat: Array) -> Array:
        """Copy a block to the current device, and wait."""
        import cupy

        out = cupy.empty(flat.size, "u1")
        self._stream.wait_event(self._record())
        out.set(flat, stream=self._stream)
        self._stream.synchronize()
        return out


class Opened:
    """Allocations of other processes that are open here: those used last."""

    def __init__(self, ipc: Ipc) -> None:
        self.ipc = ipc
        self._addresses: OrderedDict[tuple[int, int, bytes], int] = OrderedDict()
        self._lock = Lock()

    def copy(self, owner: Ticket, export: Export) -> Array:
        """Copy a block that its owner still holds when the copy has been made."""
        key = owner.process, export.serial, export.handle
        with self._lock:  # nobody closes what another thread reads
            if key not in self._addresses:
                self._make_room(owner.process, export.handle)
                self._addresses[key] = self.ipc.open(export.handle)
            self._addresses.move_to_end(key)
            address = self._addresses[key] + export.offset
            found = self.ipc.copy(address, export.event, owner.nbytes)
        if not is_held(owner):
            raise LeaseEndedError(ESTALE, "the sender let go of a block too early")
        return found

    def _make_room(self, process: int, handle: bytes) -> None:
        """Close what was replaced, left by its owner, or unused for longest."""
        for key in [*self._addresses]:
            replaced = (key[0], key[2]) == (process, handle)
            full = len(self._addresses) >= _MOST_OPEN
            if replaced or full or not Path(f"/proc/{key[0]}").exists():
                self.ipc.close(self._addresses.pop(key))

    def close(self) -> None:
        """Close all."""
        with self._lock:
            while self._addresses:
                self.ipc.close(self._addresses.popitem()[1])


opened = Opened(Ipc())
