"""Arrays past a connection: bits, lifetimes, and all that is left to dask."""

import os
import resource
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event

import numpy as np
import pytest
from distributed.protocol import deserialize, deserialize_bytes, serialize
from distributed.protocol.serialize import serialize_bytelist
from distributed.sizeof import sizeof

from tests.support import transport
from tests.support.cases import cases
from tests.support.expect import same_bits
from tests.support.strategies import LAYOUTS
from twom_dist.workers.transport.serialiser import Receiver

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="files in memory are Linux's"
)


@pytest.fixture
def way():
    with transport.a_way("host") as made:
        yield made


def count_files():
    return len(transport.files_in_memory(os.getpid()))


GRID = np.arange(24.0).reshape(4, 6)
CARRIED = [
    *(GRID, np.asfortranarray(GRID), (GRID + 1j).astype(np.complex64)),
    *(GRID.astype(np.int8), GRID > 3, GRID.astype(">f8"), np.array(2.5)),
    np.ones((2, 3, 4)).transpose(),
    np.frombuffer(b"\x01\x02\x03\x04\x05\x06\xf8\x7f" * 3),  # not a number
    LAYOUTS["read-only"](GRID),
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
    header, frames = transport.send(given, way)
    assert header["serializer"] == transport.FAMILY
    assert sum(map(len, frames)) < 1000
    found = deserialize(header, frames)
    way.close()
    assert same_bits(found, given)
    for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE"):
        assert found.flags[flag] == given.flags[flag], flag
    # Dask weighs and spills it as any other array.
    assert sizeof(found) == sizeof(given)
    spilled = deserialize_bytes(b"".join(serialize_bytelist(found)))
    assert same_bits(spilled, given)


def test_dask_gets_what_we_do_not_know_what_is_small_and_all_past_a_number(way):
    for given in LEFT:
        assert transport.send(given, way)[0].get("serializer") != transport.FAMILY
    assert not way.carried
    way.least = 2**20
    below, above = np.ones(2**17 - 1), np.ones(2**17)
    assert transport.send(below, way)[0]["serializer"] == "dask"
    headers = [transport.send(above, way)[0]["serializer"] for _ in range(40)]
    assert headers == [transport.FAMILY] * 32 + ["dask"] * 8
    way.close()
    assert transport.send(above, way)[0]["serializer"] == transport.FAMILY
    for context in (None, {}, {"recipient": {}}):  # who was not asked
        header, _ = serialize(GRID, [transport.FAMILY, "dask"], context=context)
        assert header["serializer"] == "dask"


@cases("limit", [resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE])
def test_without_room_for_such_memory_all_is_left_to_dask(limit, way):
    before = resource.getrlimit(limit)
    try:
        resource.setrlimit(limit, (3, before[1]))
        header, _ = transport.send(GRID, way)
    finally:
        resource.setrlimit(limit, before)
    assert header["serializer"] == "dask"


def test_nothing_is_left_and_what_is_lent_is_for_the_owner_alone(way):
    before = count_files()
    header, frames = transport.send(GRID, way)
    assert count_files() == before + 1
    assert [x.st_mode & 0o777 for x in transport.lent_here()] == [0o600]
    found = deserialize(header, frames)
    way.close()
    copied = found.copy()
    found += 1  # our own
    part = found[1:]
    del found
    assert same_bits(part - 1, copied[1:])
    del part
    assert count_files() == before


@cases("sent_again", [False, True])
@cases("between_looks", [False, True])
def test_what_the_sender_has_let_go_of_is_no_array(between_looks, sent_again, way):
    """Though another file may have its number by now."""
    header, frames = transport.send(GRID, way)

    def let_go():
        way.close()
        if sent_again:
            transport.send(-GRID, way)

    opened = []  # which might have effects there
    if not between_looks:
        let_go()
    do = let_go if between_looks else lambda: opened.append(1)
    with transport.before_opening(do), pytest.raises(OSError, match=r"let go|has gone"):
        deserialize(header, frames)
    assert not opened
    way.close()


BLOCK = transport.on_device(GRID.copy())


@pytest.fixture
def device():
    with transport.with_device() as made:
        yield made


@pytest.fixture
def both():
    with transport.a_way("host", "device") as made:
        yield made


@cases("given", [BLOCK[2:], transport.on_device(np.asfortranarray(GRID))])
@cases("ways", [("host", "device"), ("host",)])
def test_blocks_of_a_device_arrive_there(given, ways, both, device):
    both.ways = ways
    both.carried.clear()
    found = deserialize(*transport.send(given, both))
    assert dict(both.carried) == {ways[-1]: given.nbytes}
    assert type(found) is transport.ndarray
    assert same_bits(found, given)
    assert not np.shares_memory(found, given)
    assert found.flags.f_contiguous == given.flags.f_contiguous


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
