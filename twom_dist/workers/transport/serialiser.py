"""The family of serialisers that carries arrays past a connection.

What it writes is a pickle with tickets in the place of arrays. Whatever it does not
know, or cannot carry now, is left to dask's families.
"""

import io
import pickle
from typing import Any

from distributed.protocol import register_serialization_family

from ...tiles.accumulator import Accumulator
from ...typing import Array
from .leases import LeaseEndedError
from .passage import Passage, Sent, is_array, take

FAMILY = "twom-dist"


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
