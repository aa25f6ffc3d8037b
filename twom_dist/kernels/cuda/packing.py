"""Arguments of a launch in one block of bytes, and the offset of each argument.

Arguments are members of a C structure, of the types in the kernel's source. CuPy would
make an object of each: 0.3 us, for 87 arguments of a small product.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from struct import Struct
from typing import Any, NamedTuple

from .sources import signatures, structures

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
    """The packer of a kernel's arguments, and their places.

    Those of structures have a place for each member, and one offset, as a launch takes.
    """

    packer: Struct
    places: tuple[int, ...]
    offsets: tuple[int, ...]


def members_of(family: str, declared: str) -> list[Parameter]:
    """List a parameter, or the members of one that is a structure.

    >>> members_of("octaves", "int64 m")
    [Parameter(name='m', type='int64', pointer=False, constant=False)]
    """
    *words, name = declared.replace("*", " * ").split()
    (kind,) = (x for x in words if x not in _QUALIFIERS)
    if "*" in words or kind not in structures(family) or kind in _TYPES:
        return [Parameter(name, kind, "*" in words, "const" in words)]
    return [x for own in structures(family)[kind] for x in members_of(family, own)]


@cache
def packing_of(family: str, name: str) -> Packing:
    """Lay out the arguments of a kernel.

    >>> packing_of("octaves", "multiply_octaves").offsets
    (0, 8, 16, 24, 32, 40, 48, 56, 64)
    """
    end, text, places, offsets = 0, "<", [], []
    for declared in signatures(family)[name].split(","):
        members = members_of(family, declared)
        for i, own in enumerate(members):
            code, size, alignment = _POINTER if own.pointer else _TYPES[own.type]
            # Every structure has a member of eight bytes.
            alignment = 8 if i == 0 and len(members) > 1 else alignment
            padding = -end % alignment
            text += f"{padding}x{code}"
            places.append(end + padding)
            end += padding + size
        offsets.append(places[-len(members)])
        assert len(members) == 1 or end % 8 == 0
    return Packing(Struct(text), tuple(places), tuple(offsets))


def flatten(args: Iterable[Any]) -> Iterator[Any]:
    """List arguments, those that describe one thing in a tuple."""
    for x in args:
        if isinstance(x, tuple):
            yield from x
        else:
            yield x


def pack(
    family: str, name: str, args: Iterable[Any], address: Callable[[Any, int], Any]
) -> tuple[bytes, tuple[int, ...]]:
    """Pack arrays, None, numbers and bytes; return where each parameter begins, too.

    `address`: finds that of an array, which belongs at a place.
    """
    packing, values = packing_of(family, name), []
    for x, at in zip(flatten(args), packing.places, strict=True):
        if x is not None and not isinstance(x, int | float | bytes):
            x = address(x, at)
        values.append(0 if x is None else x)
    return packing.packer.pack(*values), packing.offsets
