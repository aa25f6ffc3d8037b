"""Arrays past a connection: bits, lifetimes, and all that is left to dask."""

import asyncio
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
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
from twom_dist.workers.transport.leases import Lease, is_held
from twom_dist.workers.transport.serialiser import Receiver, find_arrays, flatten

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="files in memory are Linux's"
)


@pytest.fixture
def passage():
    with transport.a_passage() as made:
        yield made


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
    receiver = Receiver()
    with pytest.raises(OSError, match="not here"):
        receiver.load(header, frames)
    assert receiver.works


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


@pytest.fixture
def both():
    with transport.a_passage(device=True) as made:
        yield made


@cases("given", [BLOCK[2:], transport.on_device(np.asfortranarray(GRID))])
def test_blocks_of_a_device_arrive_there(given, both, device):
    both.carried.clear()
    found = deserialize(*transport.send(given, both))
    assert dict(both.carried) == {"device": given.nbytes}
    assert type(found) is transport.ndarray
    assert same_bits(found, given)
    assert not np.shares_memory(found, given)
    assert found.flags.f_contiguous == given.flags.f_contiguous


def test_sums_on_a_device_arrive_there(both, device):
    given = [((DeviceAccumulator(BLOCK),), 2), (BLOCK, 8)]
    both.carried.clear()
    found = deserialize(*transport.send(given, both))
    assert dict(both.carried) == {"device": 2 * BLOCK.nbytes}
    assert type(found[0][0][0]) is DeviceAccumulator
    for x, y in zip(find_arrays(found), find_arrays(given), strict=True):
        assert type(x) is transport.ndarray
        assert same_bits(x, y)


def test_few_blocks_are_lent_at_a_time(both, device):
    headers = [transport.send(BLOCK, both)[0]["serializer"] for _ in range(40)]
    assert headers == [transport.FAMILY] * 32 + ["dask"] * 8
    both.close()
    assert transport.send(BLOCK, both)[0]["serializer"] == transport.FAMILY


def test_a_block_that_the_sender_drops_too_early_is_no_block(both, device):
    device.works = False  # as without handles
    assert transport.send(BLOCK, both)[0]["serializer"] == "dask"
    device.works = True
    header, frames = transport.send(BLOCK, both)
    device.during_copy = both.close  # as if the connection had broken meanwhile
    receiver = Receiver()
    with pytest.raises(OSError, match="too early"):
        receiver.load(header, frames)
    assert receiver.works  # that was the sender's doing
    with pytest.raises(OSError, match="could not be taken"):
        receiver.load(header, [b"no pickle"])
    assert not receiver.works  # and asks for no more


def test_blocks_go_by_lanes_where_the_driver_makes_no_handles(monkeypatch, device):
    """As on Tegra: what is tried counts, no attribute of the device."""
    plugin = transport.TransportPlugin()
    plugin.worker, plugin.carried = Mock(), Counter()
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
    both, device
):
    for device.number in (0, 1, 0, 1):
        deserialize(*transport.send(BLOCK, both))
    assert [x[0] for x in device.log] == ["open", "open"]
    device.log.clear()
    device.serial = 7
    deserialize(*transport.send(BLOCK, both))
    assert device.log == [("close", 1), ("open", b"0")]


def test_nothing_is_closed_twice_or_while_another_thread_reads(both, device):
    first, begun, ends = transport.send(BLOCK, both), Event(), Event()
    device.serial = 7
    later = [transport.send(BLOCK, both) for _ in range(2)]

    def read():
        begun.set()
        assert ends.wait(20)
        device.log.append(("copied",))

    device.during_copy = read
    with ThreadPoolExecutor(3) as pool:
        reading = pool.submit(deserialize, *first)
        assert begun.wait(20)
        # Both find that the allocation was replaced.
        others = [pool.submit(deserialize, *x) for x in later]
        assert not wait(others, timeout=0.1).done
        device.during_copy = lambda: None
        ends.set()
        assert all(same_bits(x.result(), BLOCK) for x in (reading, *others))
    assert [x[0] for x in device.log] == ["open", "copied", "close", "open"]
