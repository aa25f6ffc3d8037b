"""Blocks of a device past a connection, with a stand-in for CUDA's calls."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from threading import Barrier, Event
from types import SimpleNamespace

import numpy as np
import pytest
from distributed.protocol import deserialize, serialize
from distributed.protocol.cuda import cuda_deserialize, cuda_serialize

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.transport import a_way, ndarray, on_device, send, with_device
from twom_dist.kernels.cuda.fill import CudaFill
from twom_dist.tiles import tasks
from twom_dist.tiles.moving import DeviceAccumulator
from twom_dist.tiles.transport.handles import Ipc, Opened
from twom_dist.tiles.transport.leases import Lease, LeaseEndedError
from twom_dist.tiles.transport.serialiser import Receiver

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="files in memory are Linux's"
)

VALUES = np.arange(24.0).reshape(4, 6)
BLOCK = on_device(VALUES.copy())
BLOCKS = [BLOCK, BLOCK[2:], on_device(np.asfortranarray(VALUES)), BLOCK[1, :1]]


@pytest.fixture
def device():
    with with_device() as made:
        yield made


@pytest.fixture
def both():
    with a_way("host", "device") as made:
        yield made


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
    # By dask's family of CUDA, too, which is given the arrays themselves.
    cuda_serialize.register(ndarray, lambda x: ({}, [x]))
    cuda_deserialize.register(ndarray, lambda header, frames: frames[0])
    header, frames = serialize(given, serializers=["cuda", "dask", "pickle"])
    assert header["serializer"] == "cuda"
    found = deserialize(header, frames)
    assert found.values is given.values
    assert found.fill.marks is given.fill.marks
    # What tasks make there is of that kind, and weighed with all that it has.
    native = td.plan(td.gemm, (4, 6), (6, 6), method="blas").spec
    assert type(tasks.add_accumulators(given, given, native)) is DeviceAccumulator
    assert sys.getsizeof(given) > VALUES.nbytes + marks.nbytes


def test_a_block_that_the_sender_drops_too_early_is_no_block(both, device):
    header, frames = send(BLOCK, both)
    device.during_copy = both.close  # as if the connection had broken meanwhile
    with pytest.raises(LeaseEndedError):
        Receiver().load(header, frames)


def test_a_device_without_handles_leaves_blocks_to_dask(both, device):
    device.works = False
    assert send(BLOCK, both)[0]["serializer"] == "dask"


def kinds(device):
    return [x[0] for x in device.log]


@pytest.fixture
def lent(device):
    """What copies blocks, what owns one, and where it is."""
    lease = Lease()
    export, _ = device.export(BLOCK.reshape(-1).view(np.uint8))
    yield Opened(device), lease.ticket._replace(nbytes=8), export
    lease.close()


def test_allocations_are_opened_once_and_closed_when_nobody_will_read_them(
    both, device, lent
):
    for _ in range(3):
        deserialize(*send(BLOCK, both))
    assert device.log == [("open", b"0")]
    device.log.clear()
    opened, owner, export = lent
    opened.copy(owner, export)
    opened.copy(owner, export._replace(serial=7))  # its memory was given out again
    assert kinds(device) == ["open", "close", "open"]
    gone = owner._replace(process=2**22 + 1)
    with pytest.raises(LeaseEndedError):
        opened.copy(gone, export)
    device.log.clear()
    opened.copy(owner, export)
    assert kinds(device) == ["close", "close", "open"]
    # At most 32 are open.
    device.bases += [VALUES] * 32
    for i in range(1, 33):
        opened.copy(owner, export._replace(handle=str(i).encode()))
    assert kinds(device)[3:] == ["open"] * 31 + ["close", "open"]


def test_several_threads_copy_at_once(device, lent):
    """Each begins before any ends, though they read one allocation."""
    opened, owner, export = lent
    device.during_copy = Barrier(3, timeout=20).wait
    with ThreadPoolExecutor(3) as pool:
        copies = [pool.submit(opened.copy, owner, export) for _ in range(3)]
        found = [x.result() for x in copies]
    assert all(same_bits(x.view(float), BLOCK.reshape(-1)[:1]) for x in found)
    assert device.log == [("open", b"0")]


def test_nothing_is_closed_that_another_thread_reads(device, lent):
    opened, owner, export = lent
    device.bases += [VALUES] * 32
    for i in range(1, 32):
        opened.copy(owner, export._replace(handle=str(i).encode()))
    begun, ends = Event(), Event()

    def read():
        begun.set()
        assert ends.wait(20)
        device.log.append(("copied",))

    device.during_copy = read
    with ThreadPoolExecutor(4) as pool:
        pool.submit(opened.copy, owner, export)
        assert begun.wait(20)
        # One finds the place taken, one its allocation replaced, one closes all.
        other = pool.submit(opened.copy, owner, export._replace(handle=b"32"))
        later = pool.submit(opened.copy, owner, export._replace(serial=7))
        closing = pool.submit(opened.close)
        assert not wait((later, closing), timeout=0.1).done
        device.during_copy = lambda: None
        ends.set()
        assert other.result().size == later.result().size == 8
        closing.result()
    opened.close()
    assert kinds(device).count("open") == kinds(device).count("close") == 34


def test_each_device_opens_for_itself(device, lent):
    opened, owner, export = lent
    for device.number in (0, 1, 0, 1):
        opened.copy(owner, export)
    opened.close()
    assert kinds(device) == ["open", "open", "close", "close"]
    assert sorted(x[1] for x in device.log[2:]) == [0, 1]


def test_copies_wait_for_what_users_have_launched_but_for_no_queued_product(
    monkeypatch,
):
    """Nothing of the default stream: its events come after all other streams."""
    log, now = [], SimpleNamespace(number=0, thread=0)

    class Stream(nullcontext):
        null, ptr = "default stream", 100

        def __init__(self):
            super().__init__()
            self.own = f"stream of {now.number}"

        def wait_event(self, event):
            log.append("wait for it")

        def synchronize(self):
            log.append(f"synchronize {self.own}")

    def empty(nbytes, dtype):
        fill = SimpleNamespace(data=SimpleNamespace(ptr=64))
        fill.set = lambda flat, stream: log.append(f"set on {stream.own}")
        return fill

    runtime = SimpleNamespace(
        getDevice=lambda: now.number,
        streamPerThread=2,
        memcpyDefault=4,
        ipcOpenEventHandle=lambda _: 9,
        streamWaitEvent=lambda *_: log.append("wait for sender"),
        memcpyAsync=lambda *_: log.append("copy"),
        eventDestroy=lambda _: None,
    )
    event = SimpleNamespace(record=lambda stream: log.append(f"record {stream}"))
    cuda = SimpleNamespace(Stream=Stream, Event=lambda **_: event, runtime=runtime)
    cuda.get_current_stream = lambda: SimpleNamespace(ptr=now.thread)
    module = SimpleNamespace(cuda=cuda, empty=empty)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    ipc, copied = Ipc(), ["wait for sender", "copy"]
    for now.number in (0, 1, 0):
        log.clear()
        ipc.copy(4096, b"event", 8)
        assert log == [*copied, f"synchronize stream of {now.number}"]
    log.clear()
    ipc.send(np.zeros(8, "u1"))
    assert log == ["set on stream of 0", "synchronize stream of 0"]
    # Users may launch on the default streams of their threads.
    log.clear()
    now.thread = 2
    ipc.copy(4096, b"event", 8)
    assert log[:3] == ["record default stream", "wait for it", "wait for sender"]


def test_cuda_is_asked_by_the_calls_that_cupy_has():
    runtime = pytest.importorskip("cupy").cuda.runtime
    names = [f"ipc{x}Handle" for x in ("GetMem", "OpenMem", "GetEvent", "OpenEvent")]
    names += ["ipcCloseMemHandle", "streamWaitEvent", "memsetAsync", "getDevice"]
    for name in (*names, "streamPerThread"):
        assert hasattr(runtime, name), name
