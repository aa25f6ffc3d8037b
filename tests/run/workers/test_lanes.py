"""Lanes: bits, lifetimes, and what others on the network may try."""

import asyncio
import os
import socket
from contextlib import contextmanager, suppress
from functools import partial
from threading import Thread, active_count
from threading import enumerate as list_threads
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from tests.support import transport
from tests.support.cases import cases
from tests.support.expect import same_bits
from tests.support.jobs import wait_until
from tests.support.transport import (
    CHUNK,
    HEADER,
    LaneBrokenError,
    Lanes,
    LaneServer,
    LeaseEndedError,
    Offer,
    TransportPlugin,
    connect,
    receiver,
)

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="lanes use sockets as Linux has them"
)
SIZES = [1, CHUNK - 1, CHUNK, 9 * CHUNK + 5]


@pytest.fixture(params=[True, False], ids=["sealed", "plain"])
def server(request):
    made = LaneServer("127.0.0.1")
    made.offer = partial(made.offer, sealed=request.param)
    yield made
    made.close()


@pytest.fixture
def sealed():
    made = LaneServer("127.0.0.1")
    made.offer = partial(made.offer, sealed=True)
    yield made
    made.close()


def push(lanes, *blocks):
    async def every():
        return await asyncio.gather(*map(lanes.push, blocks))

    return asyncio.run(every())


def draw(size, seed=0):
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def is_empty(server):
    return not (server._blocks or server._lanes)


def test_blocks_arrive_as_they_were_whatever_lanes_bring_them(server):
    lanes = Lanes(server.offer(3))
    blocks = [draw(size, size) for size in SIZES]
    for block, ticket in zip(blocks, push(lanes, *blocks), strict=True):
        assert same_bits(server.take(ticket), block)
        with pytest.raises(LeaseEndedError, match="not here"):
            server.take(ticket)
    first, second = push(lanes, *blocks[:2])
    server.drop([first])
    with pytest.raises(LeaseEndedError):
        server.take(first)
    assert same_bits(server.take(second), blocks[1])
    lanes.close()
    wait_until(lambda: is_empty(server))
    with pytest.raises(LaneBrokenError, match="has broken"):
        push(lanes, blocks[0])


def test_blocks_go_from_a_device_to_a_device(server):
    lanes, block = Lanes(server.offer(2)), transport.on_device(draw(SIZES[-1]))
    with transport.with_device():
        (ticket,) = push(lanes, block)
        found = server.take(ticket)
    assert type(found) is transport.ndarray
    assert same_bits(found, block)
    lanes.close()


def test_many_blocks_leave_nothing(server):
    lanes, block = Lanes(server.offer(2)), draw(100)
    counts = []
    for _ in range(4):
        for ticket in push(lanes, *[block] * 250):
            server.take(ticket)
        counts.append((active_count(), len(os.listdir("/proc/self/fd"))))
    # What earlier tests left may still end meanwhile.
    assert all(x <= y for x, y in zip(counts[-1], counts[1], strict=True))
    assert not server._blocks
    lanes.close()


@cases(("start", "parts"), [(10, 1), (0, 2)])
def test_a_gap_or_a_part_that_is_missing_makes_no_block(start, parts, server):
    lane, ticket = connect(*server.offer(1)), os.urandom(16)

    def send(at, data=b""):
        header = HEADER.pack(ticket, 100, at, len(data), parts, False)
        lane.outward.send(header, memoryview(data))

    with suppress(OSError):  # the server may have ended the lane
        send(0)
        send(start, bytes(100 - start))
        send(100)
        lane.inward.read_header()
    with pytest.raises(LeaseEndedError, match="not here"):
        server.take(ticket)
    lane.close()


def test_an_answer_for_another_block_is_none():
    with socket.create_server(("127.0.0.1", 0)) as place:

        def answer():
            with place.accept()[0] as sender:
                for expected in (16 + HEADER.size, 3 * HEADER.size + 100):
                    sender.recv(expected, socket.MSG_WAITALL)
                    sender.sendall(bytes(HEADER.size))

        thread = Thread(target=answer)
        thread.start()
        lanes = Lanes([Offer(*place.getsockname(), bytes(16), [])])
        with pytest.raises(LaneBrokenError, match="another block"):
            push(lanes, draw(100))
        thread.join()


# --- between sender and receiver ------------------------------------------------------


@contextmanager
def between(server, change):
    """Lead a lane through a place that sees its bytes, and may change them."""
    (offer,) = server.offer(1)
    with socket.create_server(("127.0.0.1", 0)) as place:

        def pass_on(one, other, change):
            with suppress(OSError):
                while data := one.recv(2**16):
                    for piece in change(data):
                        other.sendall(piece)
            with suppress(OSError):
                other.shutdown(socket.SHUT_RDWR)

        def serve():
            there = offer.host, offer.port
            with place.accept()[0] as one, socket.create_connection(there) as other:
                back = Thread(target=pass_on, args=(other, one, lambda x: [x]))
                back.start()
                pass_on(one, other, change)
                back.join()

        thread = Thread(target=serve)
        thread.start()
        lanes = Lanes([offer._replace(port=place.getsockname()[1])])
        try:
            yield lanes
        finally:
            lanes.close()
            thread.join()


class Change:
    """Changes what passes at a place, counted in bytes; sees all of it."""

    def __init__(self, place, do):
        self.left, self.do, self.seen = place, do, b""

    def __call__(self, data):
        self.seen += data
        here, self.left = self.left, self.left - len(data)
        if not 0 <= here < len(data):
            return [data]
        return self.do(data[:here], data[here:])


def cut(before, after):
    raise ConnectionError


CHANGES = {
    "altered": lambda before, after: [before, bytes([after[0] ^ 1]), after[1:]],
    "repeated": lambda before, after: [before, after, after],
    "left out": lambda before, after: [before, after[1:]],
    "cut": cut,
}
# What a lane sends: a token, a greeting, what begins a part of a block, and a chunk.
SEALED = HEADER.size + 16
PLACES = [16 + SEALED + x for x in (20, HEADER.size, SEALED + 30, CHUNK // 2)]


@cases("place", PLACES)
@cases("what", CHANGES)
def test_what_was_changed_on_its_way_is_no_block(what, place, sealed):
    refused = pytest.raises(LaneBrokenError, match="a lane has broken")
    with between(sealed, Change(place, CHANGES[what])) as lanes, refused:
        push(lanes, draw(2 * CHUNK))
    wait_until(lambda: is_empty(sealed))


def test_bytes_on_their_way_say_nothing_and_serve_nobody_again(sealed):
    block, seen = np.full(CHUNK, 7, np.uint8), Change(-1, cut)
    with between(sealed, seen) as lanes:
        (ticket,) = push(lanes, block)
        assert same_bits(sealed.take(ticket), block)
    assert bytes(64) not in seen.seen
    assert bytes([7] * 64) not in seen.seen
    # Its token has been taken up, and no other key opens what it has sent.
    (offer,) = sealed.offer(1)
    for token in (seen.seen[:16], os.urandom(16), offer.token):
        stranger = socket.create_connection((offer.host, offer.port), 10)
        with stranger, suppress(ConnectionError):  # while all this is on its way
            stranger.sendall(token + seen.seen[16:])
            assert stranger.recv(1) == b""
    wait_until(lambda: is_empty(sealed))


def serving():
    return [x for x in list_threads() if x.name == "twom-lane-end"]


def test_few_strangers_are_heard(sealed):
    wait_until(lambda: not serving())
    (offer,) = sealed.offer(1)
    there, strangers = (offer.host, offer.port), []
    try:
        strangers += [socket.create_connection(there, 10) for _ in range(40)]
        assert strangers[-1].recv(1) == b""
        assert len(serving()) <= 16
    finally:
        for stranger in strangers:
            stranger.close()
    wait_until(lambda: not serving())
    lanes, block = Lanes([offer]), draw(1000)
    (ticket,) = push(lanes, block)
    assert same_bits(sealed.take(ticket), block)
    lanes.close()


def test_a_sender_that_has_gone_leaves_no_block_nor_a_server_a_sender(server):
    lanes = Lanes(server.offer(1))
    (ticket,) = push(lanes, draw(1000))
    lanes.close()
    wait_until(lambda: is_empty(server))
    with pytest.raises(LeaseEndedError, match="not here"):
        server.take(ticket)
    lanes, offers = Lanes(server.offer(1)), server.offer(1)
    server.close()
    with pytest.raises(LaneBrokenError, match="a lane has broken"):
        push(lanes, draw(1000))
    with pytest.raises(OSError, match="refused"):
        Lanes(offers)


def count_held():
    process = psutil.Process()
    return process.num_fds(), process.num_threads(), process.memory_info().rss


def test_ten_thousand_blocks_leave_nothing(server):
    lanes, blocks = Lanes(server.offer(2)), [draw(2**16 + i) for i in range(50)]

    def carry(rounds):
        for _ in range(rounds):
            for ticket, block in zip(push(lanes, *blocks), blocks, strict=True):
                assert same_bits(server.take(ticket), block)

    carry(20)
    files, threads, rss = count_held()
    carry(200)
    found = count_held()
    assert found[0] <= files
    assert found[1] <= threads
    assert found[2] <= rss + 8 * 2**20
    lanes.close()


def stand_in(address):
    return SimpleNamespace(address=address, handlers={"get_data": None})


def test_lanes_end_with_the_last_worker_of_a_process():
    one, other = TransportPlugin(), TransportPlugin()
    for plugin in (one, other):
        plugin.setup(stand_in("tcp://127.0.0.1:1"))
    (offer,) = asyncio.run(other.offer(1))
    one.teardown(one.worker)
    lanes = Lanes([Offer(*offer)])
    (ticket,) = push(lanes, block := draw(1000))
    assert same_bits(receiver.take(ticket), block)
    other.teardown(other.worker)
    with pytest.raises(LaneBrokenError):
        push(lanes, block)
    lanes.close()


def test_a_worker_behind_an_address_of_another_host_offers_none():
    plugin = TransportPlugin()
    plugin.setup(stand_in("tcp://192.0.2.1:1"))
    assert asyncio.run(plugin.offer(1)) == []
    plugin.teardown(plugin.worker)
