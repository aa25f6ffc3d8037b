"""Lanes: blocks for other workers, by separate threads and sockets.

Over dask's connection for messages, a receiver offers lanes, each with a port, a token
and a new key for either direction. The sender pushes a block in chunks, sealed by
AES-GCM if dask uses TLS; the receiver opens each chunk in its place
(docs/decisions/0050-lanes.md).
"""

import asyncio
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ...kernels.family import family_of
from ...typing import Array
from .handles import opened

# Bytes that are sealed and sent at once: they stay in L2 between one and the other.
CHUNK = 2**20
# The ticket of a block, its bytes, those before this chunk and in it, the number of its
# parts, whether it belongs on a device. A chunk without bytes begins or ends a part.
HEADER = struct.Struct(">16sQQIB?")
NOTHING = memoryview(bytearray())
# Seconds in which a lane that was offered has to be taken up.
PROOF_SECONDS = 5.0
TOKEN_BYTES = 16
_TAG_BYTES = 16
# The least that a lane takes of a block.
_PART = 4 * 2**20
# Milliseconds in which the other end must accept what is sent: dask's own default.
_PEER_MILLISECONDS = 30_000


class Offer(NamedTuple):
    """An address, a token, and the keys of a lane if its chunks are sealed."""

    host: str
    port: int
    token: bytes
    keys: Sequence[bytes]


class LaneBrokenError(OSError):
    """A lane has ended, or brings what its other end did not send."""


class _Direction:
    """One direction of a lane.

    A key serves one direction of one lane, and its nonces are the numbers of chunks: no
    nonce comes twice, and a chunk left out, repeated, altered or moved does not open.
    """

    def __init__(self, connection: socket.socket, key: bytes | None) -> None:
        self._connection, self._number = connection, count()
        self._cipher = None if key is None else AESGCM(key)
        self._room = memoryview(bytearray(HEADER.size + CHUNK + _TAG_BYTES))

    def _nonce(self) -> bytes:
        return next(self._number).to_bytes(12, "big")

    def send(self, header: bytes, data: memoryview = NOTHING) -> None:
        """Send a chunk."""
        if self._cipher is None:
            self._connection.sendall(header, socket.MSG_MORE if data else 0)
            self._connection.sendall(data)
            return
        end = len(header) + len(data) + _TAG_BYTES
        self._room[: len(header)] = header
        sealed = self._room[len(header) : end]
        self._cipher.encrypt_into(self._nonce(), data, header, sealed)
        self._connection.sendall(self._room[:end])

    def read_header(self) -> bytes:
        """Wait for the next chunk; its header is only believed once it is read."""
        return bytes(self._fill(self._room[: HEADER.size]))

    def read(self, header: bytes, to: memoryview = NOTHING) -> None:
        """Read a chunk, which fails unless it and its header are the sender's."""
        if self._cipher is None:
            self._fill(to)
            return
        sealed = self._fill(self._room[: len(to) + _TAG_BYTES])
        self._cipher.decrypt_into(self._nonce(), sealed, header, to)

    def _fill(self, room: memoryview) -> memoryview:
        done = 0
        while done < len(room):
            some = self._connection.recv_into(room[done:], 0, socket.MSG_WAITALL)
            if not some:
                raise LaneBrokenError("the other end of a lane has gone")
            done += some
        return room


class Lane:
    """A connection of two directions; `outward` and `inward` as this end sees them."""

    def __init__(self, connection: socket.socket, keys: Sequence[bytes | None]) -> None:
        for level, option, value in (
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _PEER_MILLISECONDS),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        ):
            connection.setsockopt(level, option, value)
        self._connection = connection
        self.outward, self.inward = (_Direction(connection, key) for key in keys)

    def greet(self, first: bool) -> None:
        """Prove both ends to one another: a chunk without bytes in each direction."""
        if first:
            self.outward.send(bytes(HEADER.size))
        header = self.inward.read_header()
        self.inward.read(header)
        if not first:
            self.outward.send(header)
        self._connection.settimeout(None)

    def works(self) -> bool:
        """Tell whether the other end has not closed the connection."""
        look = socket.MSG_PEEK | socket.MSG_DONTWAIT
        try:
            return self._connection.recv(1, look) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """End the connection, also under a thread that waits for it."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class Lanes:
    """The sender's end of the lanes to one worker, each with a thread."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        self._lanes: list[tuple[Lane, ThreadPoolExecutor]] = []
        self._turn = 0
        try:
            for offer in offers:
                thread = ThreadPoolExecutor(1, "twom-lane")
                self._lanes.append((_connect(offer), thread))
        except BaseException:
            self.close()
            raise

    async def push(self, flat: Array) -> bytes:
        """Send the bytes of a block, and return its ticket once they have arrived.

        Raises a LaneBrokenError where one breaks; all are closed then.
        """
        ticket, size, lanes = os.urandom(16), flat.size, self._lanes
        parts = max(1, min(len(lanes), size // _PART))
        self._turn += parts
        cuts = [size * i // parts for i in range(parts + 1)]
        sent = []
        try:
            for i in range(parts):
                lane, thread = lanes[(self._turn - i) % len(lanes)]
                part = lane, ticket, flat, cuts[i], cuts[i + 1], parts
                sent.append(asyncio.wrap_future(thread.submit(_push_part, *part)))
            await asyncio.gather(*sent)
        except Exception as error:
            self.close()
            raise LaneBrokenError(f"a lane has broken ({error})") from error
        return ticket

    def works(self) -> bool:
        """Tell whether no lane has ended."""
        return all(lane.works() for lane, _ in self._lanes)

    def close(self) -> None:
        """End all lanes."""
        for lane, thread in self._lanes:
            lane.close()
            # Parts that wait fail at once; cancelled, they would end their callers.
            thread.shutdown(wait=False)


def _connect(offer: Offer) -> Lane:
    there = offer.host, offer.port
    connection = socket.create_connection(there, timeout=PROOF_SECONDS)
    try:
        connection.sendall(offer.token)
        lane = Lane(connection, offer.keys or (None, None))
        lane.greet(first=True)
        return lane
    except BaseException:
        connection.close()
        raise


def _push_part(
    lane: Lane, ticket: bytes, flat: Array, lo: int, hi: int, parts: int
) -> None:
    """Push bytes lo to hi of a block, and wait until they are in their place."""
    on_device = family_of(flat) == "cupy"

    def header(start: int, length: int) -> bytes:
        return HEADER.pack(ticket, flat.size, start, length, parts, on_device)

    lane.outward.send(header(lo, 0))
    for start, data in _read_chunks(flat, lo, hi):
        lane.outward.send(header(start, len(data)), data)
    lane.outward.send(header(hi, 0))
    answer = lane.inward.read_header()
    lane.inward.read(answer)
    if answer != header(hi, 0):
        raise LaneBrokenError("a receiver answered for another block")


def _read_chunks(flat: Array, lo: int, hi: int) -> Iterator[tuple[int, memoryview]]:
    """Yield where each chunk begins, and its bytes: on the host."""
    on_host = family_of(flat) == "numpy"
    room = flat if on_host else opened.ipc.pinned(CHUNK)
    for start in range(lo, hi, CHUNK):
        piece = flat[start : min(start + CHUNK, hi)]
        if not on_host:
            opened.ipc.fetch(piece, room[: piece.size])
            piece = room[: piece.size]
        yield start, memoryview(piece)
