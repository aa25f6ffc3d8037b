"""The family of serialisers that carries arrays past a connection.

What it writes is a pickle with tickets in the place of arrays, which are lent here and
taken there. Whatever it does not know, or cannot carry now, is left to dask's families.
"""

import io
import pickle
from collections import Counter
from math import inf
from typing import Any, Literal, NamedTuple

import numpy as np
from distributed.protocol import register_serialization_family

from ...kernels.family import family_of
from ...tiles.accumulator import Accumulator
from ...typing import Array
from .handles import Export, opened
from .leases import Lease, LeaseEndedError, Ticket, map_lease

FAMILY = "twom-dist"


# Arrays that go past one message; dask sends 20 messages at a time from a process that
# may have 1024 files open.
_MOST_LENT = 32

Way = Literal["host", "device"]


class Sent(NamedTuple):
    """An array on its way: where its bytes are, and what they make."""

    ticket: Ticket
    export: Export | None
    on_device: bool
    dtype: str
    shape: tuple[int, ...]
    transposed: bool
    writeable: bool


def is_array(x: Any) -> bool:
    """Tell plain arrays of numbers from their subclasses and from everything else."""
    on_device = family_of(x) == "cupy" and type(x).__name__ == "ndarray"
    return (on_device or type(x) is np.ndarray) and x.dtype.kind in "biufc"


class Passage:
    """The ways past one connection, and what is lent until its message has arrived.

    `ways`: those that its receiver has been seen to use, of those `wanted`. `carried`:
    bytes by way. `ends`: when its receiver is to be asked again. `least`: smaller
    arrays of the host go within the message.
    """

    least: float = 0
    ends = inf

    def __init__(
        self,
        ways: tuple[Way, ...],
        wanted: tuple[Way, ...] = (),
        carried: Counter[str] | None = None,
    ) -> None:
        self.ways, self.wanted = ways, wanted
        self.carried = Counter[str]() if carried is None else carried
        self._lent: list[tuple[Lease, Any]] = []

    def lend(self, x: Array) -> Sent | None:
        """Lend an array, or return None if it must go within the message."""
        on_device = family_of(x) == "cupy"
        way: Way = "device" if on_device and "device" in self.ways else "host"
        transposed = not x.flags.c_contiguous
        if (
            way not in self.ways
            or len(self._lent) >= _MOST_LENT
            or x.nbytes < max(1, 0 if on_device else self.least)
            or (transposed and not x.flags.f_contiguous)
        ):
            return None
        flat = (x.T if transposed else x).reshape(-1).view(np.uint8)
        export = kept = None
        if way == "device":
            export, kept = opened.ipc.export(flat)
        lease = Lease()
        self._lent.append((lease, kept))
        if way == "host" and on_device:
            opened.ipc.fetch(flat, lease.map(flat.size))
        elif way == "host":
            lease.write(memoryview(flat))
        self.carried[way] += flat.size
        return Sent(
            lease.ticket._replace(nbytes=flat.size),
            export,
            on_device,
            x.dtype.str,
            x.shape,
            transposed,
            on_device or x.flags.writeable,
        )

    def close(self) -> None:
        """Let go of all that was lent: the receiver has it, or will not ask."""
        while self._lent:
            self._lent.pop()[0].close()


def take(sent: Sent) -> Array:
    """Make an array of our own of one that was lent."""
    if sent.export is not None:
        flat = opened.copy(sent.ticket, sent.export)
    else:
        flat = map_lease(sent.ticket)
        flat = opened.ipc.send(flat) if sent.on_device else flat
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
    """Pickle an object, but for arrays that the passage lends: one at least."""
    file = io.BytesIO()
    packer = _Packer(file, passage)
    packer.dump(x)
    if not packer.found:
        raise NotImplementedError
    return file.getvalue()


def unpack(frame: Any) -> Any:
    """Read what another process has packed, and take the arrays."""
    return _Unpacker(io.BytesIO(frame)).load()


class Receiver:
    """The receiving end of this process, which works until an array cannot be taken."""

    works = True

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


def _dump(x: Any, context: Any = None) -> tuple[dict[str, Any], list[bytes]]:
    passage = ((context or {}).get("recipient") or {}).get(FAMILY)
    if passage is None or not (is_array(x) or isinstance(x, Accumulator)):
        raise NotImplementedError
    try:
        return {}, [pack(x, passage)]
    except Exception as error:  # no memory, descriptor or device
        raise NotImplementedError from error


receiver = Receiver()
register_serialization_family(FAMILY, _dump, receiver.load)
