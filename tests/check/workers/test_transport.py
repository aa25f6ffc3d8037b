"""Arrays past a connection: bits, lifetimes, and all that is left to dask."""

import asyncio
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from threading import Event
from unittest.mock import Mock

import numpy as np
import pytest
from distributed.protocol import deserialize, deserialize_bytes, serialize
from distributed.protocol.serialize import serialize_bytelist
from distributed.sizeof import sizeof

from tests.support import transport
from tests.support.cases import cases
from tests.support.expect import same_bits
from tests.support.strategies import LAYOUTS
from twom_dist.kernels.nonfinite import MatrixFill, NativeFill
from twom_dist.tiles.accumulator import Accumulator
from twom_dist.workers.transport import worker_plugin
from twom_dist.workers.transport.device_accumulator import DeviceAccumulator
from twom_dist.workers.transport.handles import lend, opened
from twom_dist.workers.transport.leases import Lease, is_held
from twom_dist.workers.transport.serialiser import (
    Passage,
    Receiver,
    find_arrays,
    flatten,
)

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="files in memory are Linux's"
)


@pytest.fixture
def passage():
    return Passage(device=False)


@pytest.fixture
def lanes():
    with transport.arrivals() as made:
        yield made


GRID = np.arange(24.0).reshape(4, 6)
CARRIED = [
    *(GRID, np.asfortranarray(GRID), (GRID + 1j).astype(np.complex64)),
    *(GRID.astype(np.int8), GRID > 3, GRID.astype(">f8"), np.array(2.5)),
    np.ones((2, 3, 4)).transpose(),
    np.frombuffer(b"\x01\x02\x03\x04\x05\x06\xf8\x7f" * 3),  # not a number
    LAYOUTS["read-only"](GRID),
]
ENDLESS = [[]]
ENDLESS[0].append(ENDLESS)
LEFT = [
    *(GRID[:, ::2], np.broadcast_to(GRID, (3, 4, 6))),
    np.array([{}, []], object),
    np.array(["2020-01-01"], "datetime64[D]"),
    np.zeros(3, [("x", float)]),
    *(np.ma.masked_array(GRID), "abc", [1, 2]),
    ENDLESS,
]


@cases("given", CARRIED)
def test_arrays_arrive_as_they_were(given, passage, lanes):
    (found,) = find_arrays(given)
    assert found is given
    lanes.bring(given, passage)
    header, frames = transport.send(given, passage)
    assert header["serializer"] == transport.FAMILY
    assert sum(map(len, frames)) < 1000
    found = deserialize(header, frames)
    assert not passage.arrived
    assert not lanes.blocks
    assert same_bits(found, given)
    for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE"):
        assert found.flags[flag] == given.flags[flag], flag
    # Dask weighs and spills it as any other array.
    assert sizeof(found) == sizeof(given)
    spilled = deserialize_bytes(b"".join(serialize_bytelist(found)))
    assert same_bits(spilled, given)


def make_sums(make):
    """Make sums of a sweep as layers send them, one with what fills its tile."""
    fill = NativeFill(*(GRID > 3, GRID > 4), {(): MatrixFill(*[GRID + 5] * 4)})
    return [
        ((make(GRID + 1, fill), make(GRID + 2)), 2),
        ((make(GRID + 4),), 2),
        (GRID.copy(), 8),
    ]


def test_arrays_of_sums_arrive_with_them(passage, lanes):
    for given in (make_sums(Accumulator), {"x": (1, GRID)}, Accumulator(GRID)):
        arrays = {id(x): x for x in find_arrays(given)}
        for x in arrays.values():
            lanes.bring(x, passage)
        header, frames = transport.send(given, passage)
        assert not passage.arrived
        found = deserialize(header, frames)
        assert not lanes.blocks
        assert type(found) is type(given)
        for x, y in zip(find_arrays(found), find_arrays(given), strict=True):
            assert same_bits(x, y)


def test_what_pickle_does_not_know_leaves_arrays_to_dask(passage, lanes):
    given = "x", GRID, lambda: None
    lanes.bring(GRID, passage)
    assert transport.send(given, passage)[0]["serializer"] != transport.FAMILY
    assert passage.arrived  # for the receiver to forget


def test_dask_gets_what_has_not_arrived(passage, lanes):
    for given in LEFT:
        assert all(flatten(x) is None for x in find_arrays(given))
        assert transport.send(given, passage)[0].get("serializer") != transport.FAMILY
    lanes.bring(GRID, passage)
    same = GRID.copy()
    assert transport.send(same, passage)[0]["serializer"] == "dask"
    assert not passage.carried
    for context in (None, {}, {"recipient": {}}):  # who was not asked
        header, _ = serialize(GRID, [transport.FAMILY, "dask"], context=context)
        assert header["serializer"] == "dask"
    header, frames = transport.send(GRID, passage)
    lanes.blocks.clear()
    with pytest.raises(OSError, match="not here"):
        Receiver().load(header, frames)


def test_a_lease_ends_with_its_owner_or_before():
    before = len(transport.files_in_memory(os.getpid()))
    lease = Lease(7)
    assert is_held(lease.ticket)
    assert os.stat(lease.ticket.path).st_mode & 0o777 == 0o600
    lease.close()
    other = Lease(7)  # which may have its number
    assert not is_held(lease.ticket)
    assert is_held(other.ticket)
    del other
    assert len(transport.files_in_memory(os.getpid())) == before


BLOCK = transport.on_device(GRID.copy())


@pytest.fixture
def device():
    with transport.with_device() as made:
        yield made


@cases("given", [BLOCK[2:], transport.on_device(np.asfortranarray(GRID))])
def test_blocks_of_a_device_arrive_there(given, passage, device):
    passage.carried.clear()
    transport.bring(given, passage)
    found = deserialize(*transport.send(given, passage))
    assert dict(passage.carried) == {"device": given.nbytes}
    assert type(found) is transport.ndarray
    assert same_bits(found, given)
    assert not np.shares_memory(found, given)
    assert found.flags.f_contiguous == given.flags.f_contiguous


def test_sums_on_a_device_arrive_there(passage, device):
    given = [((DeviceAccumulator(BLOCK),), 2), (BLOCK.copy(), 8)]
    passage.carried.clear()
    for x in find_arrays(given):
        transport.bring(x, passage)
    found = deserialize(*transport.send(given, passage))
    assert dict(passage.carried) == {"device": 2 * BLOCK.nbytes}
    assert type(found[0][0][0]) is DeviceAccumulator
    for x, y in zip(find_arrays(found), find_arrays(given), strict=True):
        assert type(x) is transport.ndarray
        assert same_bits(x, y)


@pytest.fixture
def plugin(monkeypatch):
    """One that sends to this very process."""
    made = transport.TransportPlugin()
    made.worker, made.carried, made._not_before = Mock(), Counter(), {}
    made.worker.configure_mock(data={}, transfer_outgoing_count=0)
    made.worker.transfer_outgoing_count_limit = 50
    made.worker.rpc.return_value.twom_dist_bring = made.bring
    return made


def push(plugin, blocks, passage):
    plugin.worker.data = dict(enumerate(blocks))
    return plugin._push([*plugin.worker.data], passage, "tcp://host:1", 1)


def test_few_blocks_are_lent_at_a_time(plugin, device):
    passage, lent = Passage(device=True), []
    blocks = [transport.on_device(GRID + i) for i in range(40)]

    def count():
        lent.append(len(transport.files_in_memory(os.getpid())))

    device.during_copy = count
    asyncio.run(push(plugin, blocks, passage))
    assert [max(lent), len(lent), lent[-1]] == [lent[0], 40, lent[0] - 32 + 8]
    for x in blocks:
        assert same_bits(deserialize(*transport.send(x, passage)), x)
    assert passage.device
    device.works = False  # as if it had been reset
    asyncio.run(push(plugin, blocks, passage))
    assert not passage.arrived
    assert not passage.device
    assert plugin.worker.transfer_outgoing_count == 0


def test_the_event_loop_goes_on_while_blocks_are_copied(plugin, device):
    passage, begun, ends = Passage(device=True), Event(), Event()

    def wait():
        begun.set()
        assert ends.wait(20)

    async def run():
        device.during_copy = wait
        pushing = asyncio.create_task(push(plugin, [BLOCK], passage))
        while not begun.is_set():
            await asyncio.sleep(0)
        assert not pushing.done()
        ends.set()
        await pushing

    asyncio.run(run())
    assert same_bits(deserialize(*transport.send(BLOCK, passage)), BLOCK)


def test_what_no_message_takes_is_forgotten(plugin, device):
    for end in (lambda x: asyncio.run(plugin.drop([x])), lambda _: opened.close()):
        passage = Passage(device=True)
        asyncio.run(push(plugin, [BLOCK], passage))
        header, frames = transport.send(BLOCK, passage)
        end(*passage.tickets)
        with pytest.raises(OSError, match="closed"):
            Receiver().load(header, frames)
    flat = BLOCK.reshape(-1).view("u1")
    with lend([flat]) as [(ticket, export)]:
        gone = ticket._replace(process=2**22 + 1)
        with pytest.raises(OSError, match="too early"):
            opened.bring(b"1", gone, export)
        opened._arrived[b"1"] = flat, gone.process
        opened.bring(b"2", ticket, export)
    assert opened.take(b"1") is None
    assert same_bits(opened.take(b"2"), flat)


def test_a_block_that_the_sender_drops_too_early_is_no_block(passage, lanes, device):
    with lend([BLOCK.reshape(-1).view("u1")]) as [place]:
        assert place  # as if the connection had broken meanwhile
    with pytest.raises(OSError, match="too early"):
        opened.bring(b"1", *place)
    assert opened.take(b"1") is None
    with pytest.raises(OSError, match="could not be taken"):
        Receiver().load({}, [b"no pickle"])


def test_blocks_go_by_lanes_where_the_driver_makes_no_handles(
    monkeypatch, plugin, device
):
    """As on Tegra: what is tried counts, no attribute of the device."""
    monkeypatch.setitem(sys.modules, "cupy", Mock())
    monkeypatch.setattr(worker_plugin, "convert", lambda x, _: transport.on_device(x))
    comm, device.works = Mock(remote_info={}), False
    passage = asyncio.run(plugin._find_passage(comm, "tls://host:1"))
    assert not passage.device
    asked = plugin.worker.rpc.return_value.twom_dist_read
    asked.assert_not_called()  # nobody waits for an answer
    again = asyncio.run(plugin._find_passage(comm, "tls://host:1"))
    assert again is passage
    with transport.arrivals() as lanes:
        lanes.bring(BLOCK, passage)
        found = deserialize(*transport.send(BLOCK, passage))
    assert same_bits(found, np.asarray(BLOCK))
    assert dict(plugin.carried) == {"lanes": BLOCK.nbytes}


def test_an_allocation_is_opened_once_on_a_device_until_its_memory_is_given_out_again(
    passage, device
):
    for device.number in (0, 1, 0, 1):
        transport.bring(BLOCK, passage)
    assert [x[0] for x in device.log] == ["open", "open"]
    device.log.clear()
    device.serial = 7
    transport.bring(BLOCK, passage)
    assert device.log == [("close", 1), ("open", b"0")]


def test_nothing_is_closed_twice_or_while_another_thread_reads(device):
    begun, ends = Event(), Event()

    def read():
        begun.set()
        assert ends.wait(20)
        device.log.append(("copied",))

    device.during_copy = read
    flat = BLOCK.reshape(-1).view("u1")
    with ExitStack() as lent, ThreadPoolExecutor(3) as pool:
        ((first,), *later) = (
            lent.enter_context(lend([flat])) for device.serial in (0, 7, 7)
        )
        reading = pool.submit(opened.copy, *first)
        assert begun.wait(20)
        # Both find that the allocation was replaced.
        others = [pool.submit(opened.copy, *x) for [x] in later]
        assert not wait(others, timeout=0.1).done
        device.during_copy = lambda: None
        ends.set()
        assert all(same_bits(x.result(), flat) for x in (reading, *others))
    assert [x[0] for x in device.log] == ["open", "copied", "close", "open"]
