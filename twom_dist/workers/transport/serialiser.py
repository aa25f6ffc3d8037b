"""The family of serialisers that sends arrays without dask's connection.

The serialiser writes a pickle with tickets instead of arrays; the sender lends the
arrays, and the receiver takes them. dask's families serialise everything else.
"""

import io
import pickle
from collections import Counter, deque
from dataclasses import is_dataclass
from errno import ESTALE
from math import inf
from typing import Any, NamedTuple

import numpy as np
from distributed.protocol import register_serialization_family

from ...kernels.family import family_of
from ...typing import Array
from .handles import Export, opened
from .lane_server import LaneServer
from .leases import Lease, LeaseEndedError, Ticket

FAMILY = "twom-dist"


# Blocks of a device that one message lends; dask sends 20 messages at a time from a
# process that may have 1024 files open.
_MOST_LENT = 32
_MOST_PARTS = 1024  # of an object among which arrays are looked for


class Sent(NamedTuple):
    """An array on its way: where its bytes are, and what they make."""

    ticket: Ticket | bytes  # bytes are those of lanes, which have brought the array
    export: Export | None
    dtype: str
    shape: tuple[int, ...]
    transposed: bool
    writeable: bool


def is_array(x: Any) -> bool:
    """Tell plain arrays of numbers from their subclasses and from everything else."""
    on_device = family_of(x) == "cupy" and type(x).__name__ == "ndarray"
    return (on_device or type(x) is np.ndarray) and x.dtype.kind in "biufc"


def flatten(x: Array) -> tuple[Array, bool] | None:
    """Return the bytes of an array, and whether of its transpose; None with gaps."""
    transposed = not x.flags.c_contiguous
    if transposed and not x.flags.f_contiguous:
        return None
    return (x.T if transposed else x).reshape(-1).view(np.uint8), transposed


class Passage:
    """Arrays past one connection, some of them lent until their message has arrived.

    `device`: whether its receiver was seen to read blocks of a device by their handles;
    `asked`: whether it was asked, and is not to be asked again until `ends`. `arrived`:
    arrays that lanes have brought to it and no message has named yet, and their
    tickets; `tickets`: all of this message's. `carried`: bytes by way.
    """

    def __init__(
        self,
        device: bool,
        *,
        asked: bool = True,
        ends: float = inf,
        carried: Counter[str] | None = None,
    ) -> None:
        self.device, self.asked, self.ends = device, asked, ends
        self.carried = Counter[str]() if carried is None else carried
        self.arrived: dict[int, tuple[Array, bytes]] = {}
        self.tickets: list[bytes] = []
        self._lent: list[tuple[Lease, Any]] = []

    def lend(self, x: Array) -> Sent | None:
        """Lend an array, or return None if it must go within the message."""
        found = flatten(x)
        if found is None:
            return None
        flat, transposed = found
        ticket: Ticket | bytes | None = None
        on_device, export = family_of(x) == "cupy", None
        if id(x) in self.arrived:
            ticket = self.arrived.pop(id(x))[1]
        elif on_device and self.device and x.size and len(self._lent) < _MOST_LENT:
            export, kept = opened.ipc.export(flat)
            lease = Lease(flat.size)
            self._lent.append((lease, kept))
            ticket = lease.ticket
        if ticket is None:
            return None
        self.carried["lanes" if export is None else "device"] += flat.size
        shape, writeable = x.shape, on_device or x.flags.writeable
        return Sent(ticket, export, x.dtype.str, shape, transposed, writeable)

    def close(self) -> None:
        """Let go of all that was lent: the receiver has it, or will not ask."""
        while self._lent:
            self._lent.pop()[0].close()


def take(sent: Sent) -> Array:
    """Make an array of our own of one that was lent, or that lanes have brought."""
    if isinstance(sent.ticket, bytes):
        flat = receiver.take(sent.ticket)
    else:
        assert sent.export is not None
        flat = opened.copy(sent.ticket, sent.export)
    flat = flat.view(sent.dtype)
    found = flat.reshape(sent.shape[::-1] if sent.transposed else sent.shape)
    if not sent.writeable:
        found.flags.writeable = False
    return found.T if sent.transposed else found


class _Packer(pickle.Pickler):
    def __init__(self, file: Any, passage: Passage) -> None:
        super().__init__(file, protocol=5)
        self._passage, self.found = passage, False

    def persistent_id(self, x: Any) -> Sent | None:
        sent = self._passage.lend(x) if is_array(x) else None
        self.found |= sent is not None
        return sent


class _Unpacker(pickle.Unpickler):
    def persistent_load(self, sent: Any) -> Array:
        return take(sent)


def pack(x: Any, passage: Passage) -> bytes:
    """Pickle an object, except arrays that the passage lends: one at least."""
    file = io.BytesIO()
    packer = _Packer(file, passage)
    packer.dump(x)
    if not packer.found:
        raise NotImplementedError  # as dask asks of a family that leaves it to the next
    return file.getvalue()


def unpack(frame: Any) -> Any:
    """Read what another process has packed, and take the arrays."""
    return _Unpacker(io.BytesIO(frame)).load()


class Receiver:
    """The receiving end of this process, which works until an array cannot be taken."""

    works = True
    workers = 0  # that share it: those of a process
    lanes: LaneServer | None = None

    def take(self, ticket: bytes) -> Array:
        """Return the bytes of a block that lanes have brought."""
        if self.lanes is None:
            raise LeaseEndedError(ESTALE, "the lanes of this worker are closed")
        return self.lanes.take(ticket)

    def load(self, header: dict[str, Any], frames: list[Any]) -> Any:
        """Read an object, or raise an OSError, after which dask fetches it again."""
        try:
            return unpack(frames[0])
        except LeaseEndedError:
            raise
        except Exception as error:
            # From now on this process is sent everything in dask's own way.
            self.works = False
            raise OSError(f"a block could not be taken ({error})") from error


def find_arrays(x: Any) -> list[Array]:
    """List the arrays of an object that a passage may carry, and of its parts.

    This runs on an event loop: of data with many parts the first ones are searched.
    """
    found, rest = list[Array](), deque([x])
    for _ in range(_MOST_PARTS):
        if not rest:
            break
        part = rest.popleft()
        if is_array(part):
            found.append(part)
        elif type(part) in (list, tuple):
            rest.extend(part[:_MOST_PARTS])
        elif type(part) is dict and len(part) <= _MOST_PARTS:
            rest.extend(part.values())
        elif is_dataclass(part):  # an accumulator, and what fills its tile
            rest.extend(getattr(part, "__dict__", {}).values())
    return found


def _dump(x: Any, context: Any = None) -> tuple[dict[str, Any], list[bytes]]:
    passage = ((context or {}).get("recipient") or {}).get(FAMILY)
    if passage is None:
        raise NotImplementedError
    arrived = dict(passage.arrived)
    try:
        if find_arrays(x):
            return {}, [pack(x, passage)]
    except Exception:  # no memory, descriptor or device, or what pickle does not know
        passage.arrived = arrived
    raise NotImplementedError


receiver = Receiver()
register_serialization_family(FAMILY, _dump, receiver.load)
