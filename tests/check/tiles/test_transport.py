"""Arrays past a connection: bits, lifetimes, and all that is left to dask."""

import asyncio
import errno
import os
from types import SimpleNamespace

import numpy as np
import pytest
from distributed.protocol import deserialize, deserialize_bytes, serialize
from distributed.protocol.serialize import serialize_bytelist
from distributed.sizeof import sizeof

from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.transport import files_in_memory, send
from twom_dist.kernels.cuda.fill import CudaFill
from twom_dist.tiles.accumulator import Accumulator
from twom_dist.tiles.moving import DeviceAccumulator
from twom_dist.tiles.transport import leases, passage, worker_plugin
from twom_dist.tiles.transport.leases import Lease, LeaseEndedError, is_held, map_lease
from twom_dist.tiles.transport.passage import Passage
from twom_dist.tiles.transport.serialiser import FAMILY, Receiver
from twom_dist.tiles.transport.worker_plugin import TransportPlugin

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="files in memory are Linux's"
)


@pytest.fixture
def way():
    """A way to this very process, of arrays of any size."""
    made = Passage(("host",))
    yield made
    made.close()


# --- on the host ----------------------------------------------------------------------


def frozen(x):
    x.flags.writeable = False
    return x


GRID = np.arange(24.0).reshape(4, 6)
CARRIED = {
    "rows": GRID,
    "columns": np.asfortranarray(GRID),
    "complex": (GRID + 1j).astype(np.complex64),
    "bytes": GRID.astype(np.int8),
    "flags": GRID > 3,
    "big-endian": GRID.astype(">f8"),
    "a stack of columns": np.ones((2, 3, 4)).transpose(),
    "not a number": np.frombuffer(b"\x01\x02\x03\x04\x05\x06\xf8\x7f" * 3),
    "read-only": frozen(GRID.copy()),
    "one number": np.array(2.5),
}
LEFT = {
    "strides": GRID[:, ::2],
    "broadcast": np.broadcast_to(GRID, (3, 4, 6)),
    "nothing": GRID[:0],
    "objects": np.array([{}, []], object),
    "dates": np.array(["2020-01-01"], "datetime64[D]"),
    "records": np.zeros(3, [("x", float)]),
    "a subclass": np.ma.masked_array(GRID),
    "text": "abc",
    "a list": [1, 2],
}


@cases("given", CARRIED.values())
def test_arrays_arrive_as_they_were(given, way):
    header, frames = send(given, way)
    assert header["serializer"] == FAMILY
    assert sum(map(len, frames)) < 1000
    found = deserialize(header, frames)
    way.close()
    assert same_bits(found, given)
    assert found.dtype == given.dtype
    for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE"):
        assert found.flags[flag] == given.flags[flag], flag


@cases("given", LEFT.values())
def test_dask_gets_what_we_do_not_know(given, way):
    header, _ = send(given, way)
    assert header.get("serializer") != FAMILY
    assert not way.carried


def test_small_arrays_and_those_past_a_number_are_left(way):
    way.least = 2**20
    below, above = np.ones(2**17 - 1), np.ones(2**17)
    assert send(below, way)[0]["serializer"] == "dask"
    headers = [send(above, way)[0]["serializer"] for _ in range(40)]
    assert headers == [FAMILY] * 32 + ["dask"] * 8
    way.close()
    assert send(above, way)[0]["serializer"] == FAMILY


@pytest.mark.parametrize("kind", [Accumulator, DeviceAccumulator])
def test_accumulators_take_their_arrays_along(kind, way):
    marks, rows = np.eye(3, 4, dtype=np.uint8), np.arange(3, dtype=np.int32)
    for fill in (None, CudaFill(marks, rows, rows[:2])):
        given = kind(np.arange(24, dtype=np.int8).reshape(2, 3, 4), fill)
        header, frames = send(given, way)
        assert header["serializer"] == FAMILY
        found = deserialize(header, frames)
        assert type(found) is kind
        assert same_bits(found.values, given.values)
        assert (found.fill is None) == (fill is None)
        if fill is not None:
            assert same_bits(found.fill.marks, marks)


def test_who_was_not_asked_is_sent_nothing():
    for context in (None, {}, {"recipient": {}}):
        header, _ = serialize(GRID, [FAMILY, "dask"], context=context)
        assert header["serializer"] == "dask"


def test_a_machine_without_such_memory_leaves_all_to_dask(way, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSYS, "not here")

    for name in ("memfd_create", "pwrite"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, refuse)
            assert send(GRID, way)[0]["serializer"] == "dask"


def test_what_arrives_is_weighed_and_spilled_as_an_array(way):
    found = deserialize(*send(GRID, way))
    assert sizeof(found) == sizeof(GRID)
    way.close()
    spilled = deserialize_bytes(b"".join(serialize_bytelist(found)))
    assert same_bits(spilled, GRID)


# --- lifetimes ------------------------------------------------------------------------


def count_files():
    """Count the files in memory that this process has open or mapped."""
    return len(files_in_memory(os.getpid()))


def test_nothing_is_left(way):
    before = count_files()
    header, frames = send(GRID, way)
    assert count_files() == before + 1
    found = deserialize(header, frames)
    way.close()
    assert count_files() == before + 1
    copied = found.copy()
    found += 1  # our own
    assert same_bits(found - 1, copied)
    part = found[1:]
    del found
    assert same_bits(part - 1, GRID[1:])
    del part
    assert count_files() == before


def test_what_is_lent_is_for_the_owner_alone():
    lease = Lease()
    assert os.stat(lease.ticket.path).st_mode & 0o777 == 0o600
    lease.close()


def test_memory_that_is_mapped_is_there():
    lease = Lease()
    lease.map(2**16)
    assert os.stat(lease.ticket.path).st_blocks * 512 >= 2**16
    lease.close()


def test_a_lease_ends_with_its_owner(monkeypatch):
    lease = Lease()
    lease.write(memoryview(b"0123456789"))
    ticket = lease.ticket._replace(nbytes=10)
    assert is_held(ticket)
    assert map_lease(ticket).size == 10
    elsewhere = ticket._replace(identity=(ticket.identity[0], 0))
    nobody = ticket._replace(process=2**22 + 1)
    lease.close()
    other = os.open(os.devnull, os.O_RDONLY)  # has its number now
    monkeypatch.setattr(os, "open", None)  # which might have effects there
    try:
        for ended in (ticket, elsewhere, nobody):
            assert not is_held(ended)
            with pytest.raises(LeaseEndedError):
                map_lease(ended)
    finally:
        os.close(other)


def test_an_owner_may_die_between_two_looks(monkeypatch):
    ended = Lease().ticket._replace(process=2**22 + 1, nbytes=10)
    monkeypatch.setattr(leases, "is_held", lambda ticket: True)
    with pytest.raises(LeaseEndedError):
        map_lease(ended)


def test_a_number_may_name_another_file_after_the_first_look(monkeypatch):
    lease, other, really_open = Lease(), Lease(), os.open
    other.write(memoryview(b"0123456789"))

    def open_late(*given):
        os.dup2(other.ticket.descriptor, lease.ticket.descriptor)
        return really_open(*given)

    monkeypatch.setattr(os, "open", open_late)
    with pytest.raises(LeaseEndedError):
        map_lease(lease.ticket._replace(nbytes=10))
    lease.close()
    other.close()


def test_a_receiver_without_an_answer_is_asked_again_later(monkeypatch):
    plugin, asked, sent = TransportPlugin(), [], []

    async def answer(frame):
        asked.append(frame)
        if len(asked) == 1:
            raise OSError("its plugin comes later")
        return await plugin.read(frame)

    async def send_all(comm, serializers, **_):
        sent.append(serializers)
        if FAMILY in (serializers or ()):
            comm.remote_info[FAMILY].lend(np.ones(2**17))

    worker = SimpleNamespace(handlers={"get_data": send_all})
    worker.rpc = lambda address: SimpleNamespace(twom_dist_read=answer)
    plugin.setup(worker)
    comm = SimpleNamespace(peer_address="tls://b:1", remote_info={})
    before = count_files()
    for seconds, count in [(0, 1), (4, 1), (6, 2), (60, 2)]:
        monkeypatch.setattr(worker_plugin, "monotonic", lambda x=seconds: x)
        asyncio.run(plugin.get_data(comm, keys=(), who="tls://b:1"))
        assert len(asked) == count
    whoever = plugin.get_data(comm, keys=(), who="tls://b:1", serializers=["dask"])
    asyncio.run(whoever)
    ours = [FAMILY, "dask", "pickle"]
    assert sent == [None, None, ours, ours, ["dask"]]
    assert count_files() == before


def test_a_receiver_that_cannot_take_asks_for_no_more(way, monkeypatch):
    receiver = Receiver()
    header, frames = send(GRID, way)
    way.close()
    with pytest.raises(LeaseEndedError):  # that is the sender's doing
        receiver.load(header, frames)
    assert receiver.works
    header, frames = send(GRID, way)

    def fail(*_):
        raise PermissionError

    monkeypatch.setattr(passage, "map_lease", fail)
    with pytest.raises(OSError, match="could not be taken"):
        receiver.load(header, frames)
    assert not receiver.works
