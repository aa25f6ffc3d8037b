"""Objects that pass a connection, what this takes, and a device."""

import os
from contextlib import contextmanager, suppress
from errno import ESTALE
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed.protocol import serialize
from distributed.protocol.serialize import Serialize

from twom_dist.workers.transport import host_shares
from twom_dist.workers.transport.handles import Export, lend, opened
from twom_dist.workers.transport.host_shares import LEAST_SHARED, HostShares
from twom_dist.workers.transport.lane_server import LaneServer
from twom_dist.workers.transport.lanes import (
    CHUNK,
    HEADER,
    LaneBrokenError,
    Lanes,
    Offer,
)
from twom_dist.workers.transport.lanes import _connect as connect
from twom_dist.workers.transport.leases import LeaseEndedError
from twom_dist.workers.transport.serialiser import FAMILY, flatten, receiver
from twom_dist.workers.transport.worker_plugin import TransportPlugin

__all__ = ["CHUNK", "HEADER", "LaneBrokenError", "LaneServer", "Lanes"]
__all__ += [
    "LEAST_SHARED",
    "HostShares",
    "Offer",
    "TransportPlugin",
    "connect",
    "receiver",
]


@contextmanager
def blocks_shared_by_hosts():
    """Have blocks of any size go to another host once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_shares, "LEAST_SHARED", 1)
        yield


def files_in_memory(process):
    """List the files in memory that a process holds."""
    found = []
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            found.append(os.readlink(descriptor))
    return [line for line in found if "memfd:twom-dist" in line]


def bring(x, passage):
    """Have this process copy a block of the device, as its own handler does."""
    ticket = os.urandom(16)
    with lend([flatten(x)[0]]) as [place]:
        opened.bring(ticket, *place)
    passage.arrived[id(x)] = x, ticket, "device"


class Arrivals:
    """What lanes would have brought to this process."""

    def __init__(self):
        self.blocks = dict[bytes, Any]()

    def bring(self, x, passage):
        ticket = os.urandom(16)
        self.blocks[ticket] = np.array(flatten(x)[0])
        passage.arrived[id(x)] = x, ticket, "lanes"

    def take(self, ticket):
        if ticket not in self.blocks:
            raise LeaseEndedError(ESTALE, "a block is not here")
        return self.blocks.pop(ticket)


@contextmanager
def arrivals():
    before, receiver.lanes = receiver.lanes, Arrivals()
    try:
        yield receiver.lanes
    finally:
        receiver.lanes = before


def send(x, passage):
    """Serialise what a worker sends, which dask takes apart if it is a list."""
    context = {"recipient": {FAMILY: passage}}
    given = Serialize(x) if type(x) in (list, dict) else x
    return serialize(given, [FAMILY, "dask", "pickle"], context=context)


class ndarray(np.ndarray):  # noqa: N801
    """An array that counts as one of CuPy's, and that pickle may not touch."""

    __module__ = "cupy"

    def __reduce_ex__(self, protocol):
        raise AssertionError("pickled")


def on_device(x):
    return x.view(ndarray)


class Device:
    """A device of this process: allocations are known by number, events as well."""

    def __init__(self):
        self.bases, self.log = list[Any](), list[tuple[Any, ...]]()
        self.events = self.number = self.serial = 0
        self.works, self.during_copy = True, lambda: None

    def device(self):
        return self.number

    def export(self, flat):
        if not self.works:
            raise RuntimeError("cudaErrorInvalidValue")
        base = flat
        while isinstance(base.base, np.ndarray):
            base = base.base
        if not any(base is x for x in self.bases):
            self.bases.append(base)
        number = next(i for i, x in enumerate(self.bases) if x is base)
        self.events += 1
        offset = flat.ctypes.data - base.ctypes.data
        event = str(self.events).encode()
        handle = str(number).encode()
        return Export(handle, number + self.serial, offset, event), (flat, event)

    def open(self, handle):
        self.log.append(("open", handle))
        return int(self.bases[int(handle)].ctypes.data)

    def close(self, device, address):
        self.log.append(("close", device))

    def copy(self, address, event, nbytes):
        """Copy a block, after something else."""
        assert 1 <= int(event) <= self.events
        self.during_copy()
        found = (np.ctypeslib.ctypes.c_ubyte * nbytes).from_address(address)
        return on_device(np.array(found))

    def empty(self, nbytes):
        return on_device(np.empty(nbytes, np.uint8))

    def pinned(self, nbytes):
        return np.empty(nbytes, np.uint8)

    def fetch(self, flat, out):
        out[:] = flat.view(np.ndarray)

    def put(self, flat, out):
        out.view(np.ndarray)[:] = flat


@contextmanager
def with_device():
    before, opened.ipc = opened.ipc, Device()
    try:
        yield opened.ipc
    finally:
        opened.ipc.during_copy = lambda: None
        opened.close()
        opened.ipc = before
