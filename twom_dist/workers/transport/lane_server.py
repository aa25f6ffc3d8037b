"""The receiving end of lanes: blocks that arrive, until a message claims them."""

import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from errno import ESTALE
from functools import partial
from threading import BoundedSemaphore, Lock, Thread
from time import sleep
from typing import Any

import numpy as np

from ...typing import Array
from .handles import opened
from .lanes import (
    CHUNK,
    HEADER,
    PROOF_SECONDS,
    TOKEN_BYTES,
    Lane,
    LaneBrokenError,
    Offer,
)
from .leases import LeaseEndedError

# Connections that have yet to show a token, and offers that have yet to be taken up.
_MOST_STRANGERS, _MOST_OFFERS = 16, 256


class _Arriving:
    """A block that arrives: its memory, and the parts that have yet to end."""

    def __init__(self, nbytes: int, parts: int, on_device: bool) -> None:
        self.left, self.on_device = parts, on_device
        make = opened.ipc.empty if on_device else partial(np.empty, dtype=np.uint8)
        self.memory: Array = make(nbytes)

    def writer(self) -> Callable[[int, int, Any], None]:
        """Return what has bytes read to their place, on a device by way of the host."""
        room = opened.ipc.pinned(CHUNK) if self.on_device else None

        def write(start: int, length: int, read: Any) -> None:
            place = self.memory[start : start + length]
            if room is None:
                read(memoryview(place))
            else:
                read(memoryview(room[:length]))
                opened.ipc.put(room[:length], place)

        return write


class LaneServer:
    """Lets in those that show a token, which dask's connection has brought them.

    It listens at the worker's own address, where others are turned away in silence.
    """

    def __init__(self, host: str) -> None:
        self._host, self._closed = host, False
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self._offers: dict[bytes, Offer] = {}
        self._blocks: dict[bytes, _Arriving] = {}
        self._lanes: set[Lane] = set()
        self._lock, self._strangers = Lock(), BoundedSemaphore(_MOST_STRANGERS)
        Thread(target=self._accept, name="twom-lanes", daemon=True).start()

    def offer(self, count: int, sealed: bool) -> list[Offer]:
        """Offer some lanes to a sender that dask's connection has let in."""
        port, offers = self._listener.getsockname()[1], []
        for _ in range(count):
            keys = [os.urandom(32) for _ in range(2 if sealed else 0)]
            offers.append(Offer(self._host, port, os.urandom(TOKEN_BYTES), keys))
        with self._lock:
            self._offers |= {x.token: x for x in offers}
            for token in [*self._offers][:-_MOST_OFFERS]:
                del self._offers[token]
        return offers

    def take(self, ticket: bytes) -> Array:
        """Return the bytes of a block that has arrived: the caller's from now on."""
        with self._lock:
            block = self._blocks.pop(ticket, None)
        if block is None or block.left:
            raise LeaseEndedError(ESTALE, "a block that was sent by lanes is not here")
        return block.memory

    def drop(self, tickets: Iterable[bytes]) -> None:
        """Forget blocks that no message will take."""
        with self._lock:
            for ticket in tickets:
                self._blocks.pop(ticket, None)

    def close(self) -> None:
        """Let nobody in, end all lanes, and forget what they have brought."""
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            lanes = [*self._lanes]
            self._blocks.clear()
            self._offers.clear()
        for lane in lanes:
            lane.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # it is closed, or files are short for a time
                if self._closed:
                    return
                sleep(0.1)
                continue
            if not self._strangers.acquire(blocking=False):
                connection.close()
                continue
            name, given = "twom-lane-end", (connection,)
            try:
                Thread(target=self._serve, args=given, name=name, daemon=True).start()
            except RuntimeError:  # threads are short
                self._strangers.release()
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        """Let a sender in, and take its blocks until its lane ends."""
        try:
            lane = self._let_in(connection)
        finally:
            self._strangers.release()
        if lane is None:
            connection.close()
            return
        tickets: set[bytes] = set()
        # A lane ends by any error of its sockets, ciphers or memory.
        with suppress(Exception):
            while True:
                self._receive(lane, tickets)
                tickets &= self._blocks.keys()
        lane.close()
        # No message of a sender that has gone will take these.
        self.drop(tickets)
        with self._lock:
            self._lanes.discard(lane)

    def _let_in(self, connection: socket.socket) -> Lane | None:
        """Take a token, and a first chunk that proves the keys; answer with another."""
        with suppress(Exception):
            connection.settimeout(PROOF_SECONDS)
            token = b""
            while len(token) < TOKEN_BYTES:
                some = connection.recv(TOKEN_BYTES - len(token))
                if not some:
                    return None
                token += some
            with self._lock:
                offer = self._offers.pop(token, None)
            if offer is None:
                return None
            lane = Lane(connection, [*offer.keys][::-1] or (None, None))
            lane.greet(first=False)
            with self._lock:
                if not self._closed:
                    self._lanes.add(lane)
                    return lane
        return None

    def _receive(self, lane: Lane, tickets: set[bytes]) -> None:
        """Receive one part of a block, and answer once it is in its place."""
        header = lane.inward.read_header()
        lane.inward.read(header)
        ticket, nbytes, end, length, parts, on_device = HEADER.unpack(header)
        with self._lock:
            if ticket not in self._blocks:
                self._blocks[ticket] = _Arriving(nbytes, parts, on_device)
            block = self._blocks[ticket]
        tickets.add(ticket)
        write = block.writer()
        while True:
            header = lane.inward.read_header()
            own, _, start, length, *_ = HEADER.unpack(header)
            if own != ticket or start != end or length > min(CHUNK, nbytes - start):
                raise LaneBrokenError("a chunk is out of its place")
            if not length:
                break
            write(start, length, partial(lane.inward.read, header))
            end += length
        lane.inward.read(header)
        with self._lock:
            block.left -= 1
        lane.outward.send(header)
