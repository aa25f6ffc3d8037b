"""The family of serialisers that sends arrays without dask's connection.

The serialiser writes a pickle with tickets instead of arrays that have arrived before
their message. dask's families serialise everything else.
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
from .handles import opened
from .lane_server import LaneServer
from .leases import LeaseEndedError

FAMILY = "twom-dist"

_MOST_PARTS = 1024  # of an object among which arrays are looked for


class Sent(NamedTuple):
    """An array that has arrived: the ticket of its bytes, and what they make."""

    ticket: bytes
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
    """Arrays past one connection.

    `device`: whether its receiver was seen to read blocks of a device by their handles;
    `asked`: whether it was asked, and is not to be asked again until `ends`. `arrived`:
    arrays that have come to it and that no message has named yet, their tickets and
    ways; `tickets`: all of this message's. `carried`: bytes by way.
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
        self.arrived: dict[int, tuple[Array, bytes, str]] = {}
        self.tickets: list[bytes] = []

    def name(self, x: Array) -> Sent | None:
        """Name an array that has arrived; None of one that goes within the message."""
        if id(x) not in self.arrived:
            return None
        _, ticket, way = self.arrived.pop(id(x))
        self.carried[way] += x.nbytes
        writeable = family_of(x) == "cupy" or x.flags.writeable
        return Sent(ticket, x.dtype.str, x.shape, not x.flags.c_contiguous, writeable)


class _Packer(pickle.Pickler):
    def __init__(self, file: Any, passage: Passage) -> None:
        super().__init__(file, protocol=5)
        self._passage, self.found = passage, False

    def persistent_id(self, x: Any) -> Sent | None:
        sent = self._passage.name(x) if is_array(x) else None
        self.found |= sent is not None
        return sent


class _Unpacker(pickle.Unpickler):
    def persistent_load(self, sent: Any) -> Array:
        """Make an array of our own of one that has arrived."""
        flat = receiver.take(sent.ticket).view(sent.dtype)
        found = flat.reshape(sent.shape[::-1] if sent.transposed else sent.shape)
        if not sent.writeable:
            found.flags.writeable = False
        return found.T if sent.transposed else found


class Receiver:
    """The receiving end of this process."""

    workers = 0  # that share it: those of a process
    lanes: LaneServer | None = None

    def take(self, ticket: bytes) -> Array:
        """Return the bytes of a block that handles or lanes have brought."""
        found = opened.take(ticket)
        if found is not None:
            return found
        if self.lanes is None:
            raise LeaseEndedError(ESTALE, "the lanes of this worker are closed")
        return self.lanes.take(ticket)

    def load(self, header: dict[str, Any], frames: list[Any]) -> Any:
        """Read an object, or raise an OSError, after which dask fetches it again."""
        try:
            return _Unpacker(io.BytesIO(frames[0])).load()
        except Exception as error:
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
        raise NotImplementedError  # as dask asks of a family that leaves it to the next
    arrived = dict(passage.arrived)
    try:
        if find_arrays(x):
            packer = _Packer(file := io.BytesIO(), passage)
            packer.dump(x)
            if packer.found:
                return {}, [file.getvalue()]
    except Exception:  # no memory, descriptor or device, or what pickle does not know
        passage.arrived = arrived
    raise NotImplementedError


receiver = Receiver()
register_serialization_family(FAMILY, _dump, receiver.load)
