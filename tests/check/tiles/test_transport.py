"""Arrays past a connection: bits, lifetimes, and all that is left to dask."""

import asyncio
import os
import resource
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from distributed.protocol import deserialize, deserialize_bytes, serialize
from distributed.protocol.serialize import serialize_bytelist
from distributed.sizeof import sizeof

from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.transport import (
    FAMILY,
    a_way,
    before_opening,
    files_in_memory,
    lent_here,
    send,
)
from twom_dist.kernels.cuda.fill import CudaFill
from twom_dist.tiles.accumulator import Accumulator
from twom_dist.tiles.moving import DeviceAccumulator
from twom_dist.tiles.transport.leases import Lease, LeaseEndedError, is_held, map_lease
from twom_dist.tiles.transport.serialiser import Receiver
from twom_dist.tiles.transport.worker_plugin import TransportPlugin

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="files in memory are Linux's"
)


@pytest.fixture
def way():
    with a_way("host") as made:
        yield made


def frozen(x):
    x.flags.writeable = False
    return x


GRID = np.arange(24.0).reshape(4, 6)
CARRIED = [
    *(GRID, np.asfortranarray(GRID), (GRID + 1j).astype(np.complex64)),
    *(GRID.astype(np.int8), GRID > 3, GRID.astype(">f8"), np.array(2.5)),
    np.ones((2, 3, 4)).transpose(),
    np.frombuffer(b"\x01\x02\x03\x04\x05\x06\xf8\x7f" * 3),  # not a number
    frozen(GRID.copy()),
]
LEFT = [
    *(GRID[:, ::2], np.broadcast_to(GRID, (3, 4, 6)), GRID[:0]),
    np.array([{}, []], object),
    np.array(["2020-01-01"], "datetime64[D]"),
    np.zeros(3, [("x", float)]),
    *(np.ma.masked_array(GRID), "abc", [1, 2]),
]


@cases("given", CARRIED)
def test_arrays_arrive_as_they_were(given, way):
    header, frames = send(given, way)
    assert header["serializer"] == FAMILY
    assert sum(map(len, frames)) < 1000
    found = deserialize(header, frames)
    way.close()
    assert same_bits(found, given)
    for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE"):
        assert found.flags[flag] == given.flags[flag], flag


@cases("given", LEFT)
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
    for context in (None, {}, {"recipient": {}}):  # who was not asked
        header, _ = serialize(GRID, [FAMILY, "dask"], context=context)
        assert header["serializer"] == "dask"


@cases("kind", [Accumulator, DeviceAccumulator])
def test_accumulators_take_their_arrays_along(kind, way):
    marks, rows = np.eye(3, 4, dtype=np.uint8), np.arange(3, dtype=np.int32)
    for fill in (None, CudaFill(marks, rows, rows[:2])):
        given = kind(np.arange(24, dtype=np.int8).reshape(2, 3, 4), fill)
        for sent in (
            send(given, way),
            serialize(given, serializers=["dask", "pickle"]),
        ):
            found = deserialize(*sent)
            assert type(found) is kind
            assert same_bits(found.values, given.values)
            assert (found.fill is None) == (fill is None)
            assert fill is None or same_bits(found.fill.marks, marks)
        assert send(given, way)[0]["serializer"] == FAMILY
    if kind is DeviceAccumulator:  # its arrays are frames of their own on the host
        header, frames = serialize(given, serializers=["dask", "pickle"])
        assert header["serializer"] == "dask"
        assert np.shares_memory(np.asarray(frames[0]), given.values)


@cases("limit", [resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE])
def test_without_room_for_such_memory_all_is_left_to_dask(limit, way):
    before = resource.getrlimit(limit)
    try:
        resource.setrlimit(limit, (3, before[1]))
        header, _ = send(GRID, way)
    finally:
        resource.setrlimit(limit, before)
    assert header["serializer"] == "dask"


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


def test_nothing_is_left_and_what_is_lent_is_for_the_owner_alone(way):
    before = count_files()
    header, frames = send(GRID, way)
    assert count_files() == before + 1
    assert [x.st_mode & 0o777 for x in lent_here()] == [0o600]
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


def test_a_lease_ends_with_its_owner():
    lease = Lease()
    lease.write(memoryview(b"0123456789"))
    ticket = lease.ticket._replace(nbytes=10)
    assert is_held(ticket)
    assert map_lease(ticket).size == 10
    elsewhere = ticket._replace(identity=(ticket.identity[0], 0))
    nobody = ticket._replace(process=2**22 + 1)
    lease.close()
    other = os.open(os.devnull, os.O_RDONLY)  # has its number now
    opened = []
    try:
        for ended in (ticket, elsewhere, nobody):
            assert not is_held(ended)
            # Opening it might have effects there.
            with (
                before_opening(lambda: opened.append(1)),
                pytest.raises(LeaseEndedError),
            ):
                map_lease(ended)
    finally:
        os.close(other)
    assert opened == []


def test_an_owner_may_let_go_between_two_looks():
    """It has died; or the number names another file."""
    for again in (False, True):
        lease, other = Lease(), Lease()
        other.write(memoryview(b"0123456789"))
        numbers = other.ticket.descriptor, lease.ticket.descriptor
        end = partial(os.dup2, *numbers) if again else lease.close
        with before_opening(end), pytest.raises(LeaseEndedError):
            map_lease(lease.ticket._replace(nbytes=10))
        lease.close()
        other.close()


def test_a_receiver_that_cannot_take_asks_for_no_more(way):
    receiver = Receiver()
    header, frames = send(GRID, way)
    way.close()
    with pytest.raises(LeaseEndedError):  # that is the sender's doing
        receiver.load(header, frames)
    assert receiver.works
    with pytest.raises(OSError, match="could not be taken"):
        receiver.load(header, [b"no pickle"])
    assert not receiver.works


def test_a_receiver_without_an_answer_is_asked_again_later():
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
    for seconds, count in [(0, 1), (4, 1), (2, 2), (54, 2)]:
        for known in comm.remote_info.values():  # so much later
            known.ends -= seconds
        asyncio.run(plugin.get_data(comm, keys=(), who="tls://b:1"))
        assert len(asked) == count
    whoever = plugin.get_data(comm, keys=(), who="tls://b:1", serializers=["dask"])
    asyncio.run(whoever)
    ours = [FAMILY, "dask", "pickle"]
    assert sent == [None, None, ours, ours, ["dask"]]
    assert count_files() == before
