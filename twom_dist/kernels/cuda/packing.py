"""Arguments of a launch in one run of bytes, and where each of them begins.

They lie as members of a C structure, of the types in the kernel's text. CuPy would make
an object of each: 0.3 us, of 87 in a small product.
"""

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from struct import Struct
from typing import Any, NamedTuple

from ...typing import Array
from .sources import signatures

# Format, size and alignment of parameters. Tensor maps come as bytes.
_POINTER = "Q", 8, 8
_TYPES = {
    "int32": ("i", 4, 4),
    "uint32": ("I", 4, 4),
    "int64": ("q", 8, 8),
    "uint64": ("Q", 8, 8),
    "double": ("d", 8, 8),
    "TensorMap": ("128s", 128, 64),
}
_QUALIFIERS = "const", "*", "__grid_constant__"


class Parameter(NamedTuple):
    """A parameter of a kernel, as its text declares it."""

    name: str
    type: str
    pointer: bool
    constant: bool


class Packing(NamedTuple):
    """The packer of a kernel's arguments, and the place of each."""

    packer: Struct
    offsets: tuple[int, ...]


@cache
def parameters_of(family: str, name: str) -> list[Parameter]:
    """Read the parameters of a kernel.

    >>> parameters_of("octaves", "multiply_octaves")[2]
    Parameter(name='m', type='int64', pointer=False, constant=False)
    """
    found = []
    for declared in signatures(family)[name].split(","):
        *words, own = declared.replace("*", " * ").split()
        (kind,) = (x for x in words if x not in _QUALIFIERS)
        found.append(Parameter(own, kind, "*" in words, "const" in words))
    return found


@cache
def packing_of(family: str, name: str) -> Packing:
    """Lay out the arguments of a kernel.

    >>> packing_of("octaves", "multiply_octaves").offsets
    (0, 8, 16, 24, 32, 40)
    """
    end, text, offsets = 0, "<", []
    for parameter in parameters_of(family, name):
        own = _POINTER if parameter.pointer else _TYPES[parameter.type]
        code, size, alignment = own
        padding = -end % alignment
        text += f"{padding}x{code}"
        offsets.append(end + padding)
        end += padding + size
    return Packing(Struct(text), tuple(offsets))


def flatten(args: Iterable[Any]) -> Iterator[Any]:
    """List arguments, those that describe one thing in a tuple."""
    for x in args:
        if isinstance(x, tuple):
            yield from x
        else:
            yield x


def pack(
    family: str, name: str, args: Iterable[Any], address: Callable[[Array], int]
) -> tuple[bytes, tuple[int, ...]]:
    """Pack arrays, None, numbers and bytes; return where each parameter begins, too."""
    packing, values = packing_of(family, name), []
    for x in flatten(args):
        if x is not None and not isinstance(x, int | float | bytes):
            x = address(x)
        values.append(0 if x is None else x)
    return packing.packer.pack(*values), packing.offsets


_MOST_BYTES = 4096  # the most that a launch takes


class Arguments(threading.local):
    """Memory of each thread from which the driver copies the arguments of a launch.

    Each by its own pointer: given all at once (CU_LAUNCH_PARAM_BUFFER_POINTER),
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
