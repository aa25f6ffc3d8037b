"""Arguments of a launch in one run of bytes, and where each of them begins.

They lie as members of a C structure. CuPy would make an object of each: 0.3 us, of 87
in a small product.
"""

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from ...typing import Array

# Format, size and alignment of parameters. Structures come as bytes: tensor maps.
_POINTER = "Q", 8, 8
_KINDS = {
    np.int32: ("i", 4, 4),
    np.uint32: ("I", 4, 4),
    np.int64: ("q", 8, 8),
    np.uint64: ("Q", 8, 8),
    np.float32: ("f", 4, 4),
    np.float64: ("d", 8, 8),
    np.void: ("128s", 128, 64),
}


class Packing(NamedTuple):
    """The packer of parameters of some types, and the place of each."""

    packer: Struct
    offsets: tuple[int, ...]


@lru_cache(maxsize=256)
def lay_out(types: tuple[type, ...]) -> Packing:
    """Lay out parameters; all but the scalars and structures of NumPy are pointers.

    Examples
    --------
    >>> lay_out((np.int32, list, np.int32)).offsets
    (0, 8, 16)
    """
    end, text, offsets = 0, "<", []
    for kind in types:
        code, size, alignment = _KINDS.get(kind, _POINTER)
        padding = -end % alignment
        text += f"{padding}x{code}"
        offsets.append(end + padding)
        end += padding + size
    return Packing(Struct(text), tuple(offsets))


# The most that a launch takes.
_MOST_BYTES = 4096


class Arguments(threading.local):
    """Memory of each thread from which the driver copies the arguments of a launch.

    Each by a pointer of its own: given all at once (CU_LAUNCH_PARAM_BUFFER_POINTER),
    those of products.cu came 48 bytes late, since its first one asks for multiples of
    64 (an H200, driver 580.159.04; no error was told).
    """

    def __init__(self) -> None:
        self._memory = (ctypes.c_char * _MOST_BYTES)()
        self._view = memoryview(self._memory).cast("B")
        self._pointers: dict[tuple[int, ...], Any] = {}

    def set(self, data: bytes | bytearray, offsets: tuple[int, ...]) -> int:
        """Take packed arguments; return the address of the pointers to each."""
        self._view[: len(data)] = data
        pointers = self._pointers.get(offsets)
        if pointers is None:
            base = ctypes.addressof(self._memory)
            found = (ctypes.c_void_p * len(offsets))(*(base + x for x in offsets))
            self._pointers[offsets] = pointers = ctypes.addressof(found), found
        return int(pointers[0])


def pack(
    args: Sequence[Any], address: Callable[[Array], int]
) -> tuple[bytes, tuple[int, ...]]:
    """Pack arrays, null pointers (None), NumPy's scalars and structures.

    Returns the bytes, and where each argument begins.
    """
    values = [
        x.tobytes()
        if isinstance(x, np.void)
        else x
        if isinstance(x, np.generic)
        else 0
        if x is None
        else address(x)
        for x in args
    ]
    packer, offsets = lay_out(tuple(map(type, args)))
    return packer.pack(*values), offsets
