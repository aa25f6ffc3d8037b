"""Arguments of a launch in one run of bytes, as the driver takes them.

The driver wants each parameter at a multiple of its own alignment, as members of a C
structure lie. CuPy would make an object of each: 0.3 us, of 87 in a small product.
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


# The most that a launch takes, and enumerators of cuda.h: CU_LAUNCH_PARAM_...
_MOST_BYTES = 4096
_END, _POINTER_TO_BUFFER, _POINTER_TO_SIZE = 0, 1, 2


class Arguments(threading.local):
    """Memory of each thread from which the driver copies the arguments of a launch."""

    def __init__(self) -> None:
        self._size = ctypes.c_size_t()
        self._memory = (ctypes.c_char * _MOST_BYTES)()
        self._view = memoryview(self._memory).cast("B")
        address, size = map(ctypes.addressof, (self._memory, self._size))
        told = _POINTER_TO_BUFFER, address, _POINTER_TO_SIZE, size, _END
        self._told = (ctypes.c_void_p * len(told))(*told)
        self._address = ctypes.addressof(self._told)

    def set(self, data: bytes | bytearray) -> int:
        """Take packed arguments; return the address that is the driver's ``extra``."""
        size = len(data)
        self._view[:size] = data
        self._size.value = size
        return self._address


def pack(args: Sequence[Any], address: Callable[[Array], int]) -> bytes:
    """Pack arrays, null pointers (None), NumPy's scalars and structures."""
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
    return lay_out(tuple(map(type, args))).packer.pack(*values)
