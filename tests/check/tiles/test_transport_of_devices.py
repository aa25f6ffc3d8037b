"""Blocks of a device past a connection, with a stand-in for CUDA's calls."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Barrier, Event
from types import SimpleNamespace

import numpy as np
import pytest
from distributed.protocol import deserialize

from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.transport import send
from twom_dist.kernels.cuda.fill import CudaFill
from twom_dist.tiles.moving import DeviceAccumulator
from twom_dist.tiles.transport import handles, passage
from twom_dist.tiles.transport.handles import Export, Opened
from twom_dist.tiles.transport.leases import Lease, LeaseEndedError
from twom_dist.tiles.transport.passage import Passage
from twom_dist.tiles.transport.serialiser import Receiver

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="files in memory are Linux's"
)

VALUES = np.arange(24.0).reshape(4, 6)


class ndarray(np.ndarray):  # noqa: N801
    """An array that counts as one of CuPy's."""

    __module__ = "cupy"


def on_device(x):
    return x.view(ndarray)


@dataclass
class StandIn:
    """A device of this process: allocations are known by number, events as well."""

    bases: list = field(default_factory=list)
    events: int = 0
    log: list = field(default_factory=list)
    number: int = 0

    def device(self):
        return self.number

    def export(self, flat):
        base = flat
        while isinstance(base.base, np.ndarray):
            base = base.base
        if not any(base is x for x in self.bases):
            self.bases.append(base)
        number = next(i for i, x in enumerate(self.bases) if x is base)
        self.events += 1
        offset = flat.ctypes.data - base.ctypes.data
        event = str(self.events).encode()
        return Export(str(number).encode(), number, offset, event), (flat, event)

    def open(self, handle):
        self.log.append(("open", handle))
        return self.bases[int(handle)].ctypes.data

    def close(self, device, address):
        self.log.append(("close", device, address))

    def copy(self, address, event, nbytes):
        assert 1 <= int(event) <= self.events
        self.log.append(("copy", event))
        found = (np.ctypeslib.ctypes.c_ubyte * nbytes).from_address(address)
        return on_device(np.array(found))

    def fetch(self, flat, out):
        out[:] = flat.view(np.ndarray)

    def send(self, flat):
        return on_device(flat.copy())


@pytest.fixture
def device(monkeypatch):
    made = StandIn()
    monkeypatch.setattr(passage, "opened", Opened(made))
    return made


@pytest.fixture
def both():
    made = Passage(("host", "device"))
    yield made
    made.close()


BLOCK = on_device(VALUES.copy())
BLOCKS = [BLOCK, BLOCK[2:], on_device(np.asfortranarray(VALUES)), BLOCK[1, :1]]


@cases("given", BLOCKS)
@cases("ways", [("host", "device"), ("host",)])
def test_blocks_of_a_device_arrive_there(given, ways, both, device):
    both.ways = ways
    both.carried.clear()
    header, frames = send(given, both)
    assert header["serializer"] == "twom-dist"
    assert dict(both.carried) == {ways[-1]: given.nbytes}
    found = deserialize(header, frames)
    assert type(found) is ndarray
    assert same_bits(found, given)
    assert not np.shares_memory(found, given)
    assert found.flags.f_contiguous == given.flags.f_contiguous


def test_device_accumulators_stay_there(both, device):
    marks = on_device(np.eye(3, 4, dtype=np.uint8))
    given = DeviceAccumulator(on_device(VALUES), CudaFill(marks, marks[0], marks[1]))
    found = deserialize(*send(given, both))
    for x, y in ((found.values, VALUES), (found.fill.marks, marks)):
        assert type(x) is ndarray
        assert same_bits(x, y)
    assert both.carried["device"] == VALUES.nbytes + 12 + 4 + 4


def test_a_block_that_the_sender_drops_too_early_is_no_block(both, device, monkeypatch):
    def copy(*given):
        both.close()  # as if the connection had broken meanwhile
        return StandIn.copy(device, *given)

    header, frames = send(BLOCK, both)
    monkeypatch.setattr(device, "copy", copy)
    with pytest.raises(LeaseEndedError):
        Receiver().load(header, frames)


def test_a_device_without_handles_leaves_blocks_to_dask(both, device, monkeypatch):
    def refuse(_):
        raise RuntimeError("cudaErrorInvalidValue")

    monkeypatch.setattr(device, "export", refuse)
    assert send(BLOCK, both)[0]["serializer"] == "dask"


def opens(device):
    return [x for x in device.log if x[0] in ("open", "close")]


def test_an_allocation_is_opened_once(both, device):
    for _ in range(3):
        deserialize(*send(BLOCK, both))
    assert opens(device) == [("open", b"0")]
    passage.opened.close()
    assert opens(device)[1:] == [("close", 0, BLOCK.base.ctypes.data)]


def test_allocations_are_closed_that_nobody_will_read_again(device, monkeypatch):
    opened, lease = Opened(device), Lease()
    owner = lease.ticket._replace(nbytes=8)
    export, _ = device.export(BLOCK.reshape(-1).view(np.uint8))
    opened.copy(owner, export)
    opened.copy(owner, export._replace(serial=7))  # its memory was given out again
    assert [x[0] for x in opens(device)] == ["open", "close", "open"]
    gone = owner._replace(process=2**22 + 1)
    with pytest.raises(LeaseEndedError):
        opened.copy(gone, export)
    device.log.clear()
    opened.copy(owner, export)
    assert [x[0] for x in opens(device)] == ["close", "close", "open"]
    monkeypatch.setattr(handles, "_MOST_OPEN", 1)
    device.bases.append(VALUES)
    opened.copy(owner, export._replace(handle=b"1"))
    assert [x[0] for x in opens(device)][3:] == ["close", "open"]
    lease.close()


def test_several_threads_copy_at_once(device, monkeypatch):
    """Each begins before any ends, though they read one allocation."""
    opened, lease, together = Opened(device), Lease(), Barrier(3, timeout=20)
    owner = lease.ticket._replace(nbytes=BLOCK.nbytes)
    export, _ = device.export(BLOCK.reshape(-1).view(np.uint8))

    def copy(*given):
        together.wait()
        return StandIn.copy(device, *given)

    monkeypatch.setattr(device, "copy", copy)
    with ThreadPoolExecutor(3) as pool:
        copies = [pool.submit(opened.copy, owner, export) for _ in range(3)]
        found = [x.result() for x in copies]
    assert all(same_bits(x.view(float), BLOCK.reshape(-1)) for x in found)
    assert opens(device) == [("open", b"0")]
    lease.close()


def test_nothing_is_closed_that_another_thread_reads(device, monkeypatch):
    opened, lease, begun, ends = Opened(device), Lease(), Event(), Event()
    owner = lease.ticket._replace(nbytes=8)
    export, _ = device.export(BLOCK.reshape(-1).view(np.uint8))

    def copy(*given):
        begun.set()
        assert ends.wait(20)
        device.log.append(("copied",))
        return StandIn.copy(device, *given)

    monkeypatch.setattr(device, "copy", copy)
    monkeypatch.setattr(handles, "_MOST_OPEN", 1)
    device.bases.append(VALUES)
    with ThreadPoolExecutor(4) as pool:
        pool.submit(opened.copy, owner, export)
        assert begun.wait(20)
        # One finds the place taken, one its allocation replaced, one closes all.
        other = pool.submit(opened.copy, owner, export._replace(handle=b"1"))
        later = pool.submit(opened.copy, owner, export._replace(serial=7))
        closing = pool.submit(opened.close)
        assert not wait((other, later, closing), timeout=0.1).done
        ends.set()
        assert other.result().size == later.result().size == 8
        closing.result()
    opened.close()
    log = [x[0] for x in device.log if x[0] != "copy"]
    assert log.index("copied") < log.index("close")
    assert log.count("open") == log.count("close") == 3
    lease.close()


def test_each_device_opens_for_itself(device):
    opened, lease = Opened(device), Lease()
    owner = lease.ticket._replace(nbytes=8)
    export, _ = device.export(BLOCK.reshape(-1).view(np.uint8))
    for device.number in (0, 1, 0, 1):
        opened.copy(owner, export)
    opened.close()
    assert [x[0] for x in opens(device)] == ["open", "open", "close", "close"]
    assert sorted(x[1] for x in opens(device)[2:]) == [0, 1]
    lease.close()


class Cupy:
    """CuPy's calls that a copy makes, in `log`: each with its device or stream."""

    def __init__(self, monkeypatch):
        self.log, self.number, self.thread, self.current = [], 0, 0, None
        note, outer = self.log.append, self

        class Stream:
            def __init__(self, non_blocking=False):
                assert not non_blocking, "it would not wait for the default stream"
                self.name, self.ptr = f"stream of {outer.number}", 100

            def __enter__(self):
                outer.current = self.name

            def __exit__(self, *_):
                outer.current = None

            def wait_event(self, event):
                note(("wait for", event))

            def synchronize(self):
                note(("synchronize", self.name))

        class Event:
            def __init__(self, **_):
                self.ptr = 5

            def record(self, stream):
                note(("record", getattr(stream, "name", stream)))

        def empty(nbytes, dtype):
            note(("empty", outer.current))
            return SimpleNamespace(data=SimpleNamespace(ptr=64), set=self.set)

        Stream.null = "default stream"
        runtime = SimpleNamespace(
            getDevice=lambda: self.number,
            streamPerThread=2,
            memcpyDefault=4,
            ipcOpenEventHandle=lambda _: 9,
            streamWaitEvent=lambda *_: note(("wait for sender",)),
            memcpyAsync=lambda *_: note(("copy",)),
            eventDestroy=lambda _: None,
        )
        cuda = SimpleNamespace(
            Stream=Stream,
            Event=Event,
            runtime=runtime,
            get_current_stream=lambda: SimpleNamespace(ptr=self.thread),
        )
        module = SimpleNamespace(cuda=cuda, empty=empty)
        monkeypatch.setitem(sys.modules, "cupy", module)
        monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)

    def set(self, flat, stream):
        self.log.append(("set", stream.name))


def test_copies_wait_for_no_queued_product(monkeypatch):
    """Nothing of the default stream: its events come after all other streams."""
    cupy, ipc = Cupy(monkeypatch), handles.Ipc()
    ipc.copy(4096, b"event", 8)
    own = "stream of 0"
    made = [("empty", None), ("empty", own)]
    copied = [("wait for sender",), ("copy",), ("synchronize", own)]
    assert cupy.log == made + copied
    cupy.log.clear()
    ipc.send(np.zeros(8, "u1"))
    assert cupy.log == [("empty", own), ("set", own), ("synchronize", own)]


def test_each_device_copies_on_a_stream_of_its_own(monkeypatch):
    cupy, ipc = Cupy(monkeypatch), handles.Ipc()
    for cupy.number in (0, 1, 0):
        ipc.copy(4096, b"event", 8)
        assert cupy.log[-1] == ("synchronize", f"stream of {cupy.number}")
    assert cupy.log.count(("empty", None)) == 2


def test_default_streams_of_threads_are_waited_for(monkeypatch):
    cupy, ipc = Cupy(monkeypatch), handles.Ipc()
    cupy.thread = 2
    ipc.copy(4096, b"event", 8)
    kinds = [x[0] for x in cupy.log]
    assert ("record", "default stream") in cupy.log
    assert kinds.index("wait for") < kinds.index("copy")


def test_cuda_is_asked_by_the_calls_that_cupy_has():
    cupy = pytest.importorskip("cupy")
    for name in ("GetMemHandle", "OpenMemHandle", "CloseMemHandle"):
        assert hasattr(cupy.cuda.runtime, f"ipc{name}"), name
    names = "ipcGetEventHandle", "ipcOpenEventHandle", "streamWaitEvent", "memsetAsync"
    for name in (*names, "getDevice", "streamPerThread"):
        assert hasattr(cupy.cuda.runtime, name), name
