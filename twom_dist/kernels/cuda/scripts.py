"""Scripts: the launches of a product, written once and run with other addresses.

All else in the arguments depends on shapes, strides and options alone. A script takes
one allocation for all but the result, and no Python for each argument.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import pack_into
from threading import Lock
from typing import Any

import numpy as np

from ...typing import Array
from .launch import Device, Parts, Triple, part_offsets
from .packing import pack
from .sources import Module

# Memory of the script's own, and the result, beside the names of operands.
_SLAB, _OUT = "slab", "out"


@dataclass(frozen=True)
class Hole:
    """Where an address belongs.

    Attributes
    ----------
    at : int
        Offset in the arguments.
    of : str
        Whose address; that of the slab where `planes` are described.
    beyond : int
        Bytes to be added to it.
    planes : (int, int, int), optional
        Shape of planes whose tensor map belongs here, in place of their address.
    """

    at: int
    of: str
    beyond: int
    planes: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class Launch:
    """A kernel with its grid and its packed arguments, which have holes."""

    module: Module
    name: str
    grid: Triple
    block: Triple
    data: bytes
    offsets: tuple[int, ...]
    holes: tuple[Hole, ...]
    shared: int


@dataclass
class Script:
    """Launches in their order, and what they allocate."""

    launches: list[Launch] = field(default_factory=list)
    slab_bytes: int = 0
    # What every byte of the slab is before, if that matters.
    fill: int | None = None
    made: tuple[tuple[int, ...], Any] | None = None
    # What lies at constant addresses stays.
    kept: list[Array] = field(default_factory=list)

    def run(self, device: Device, given: Mapping[str, Array | None]) -> Array:
        """Launch it all, and return the result, or the slab if there is none."""
        size = ((self.slab_bytes,), np.uint8)
        slab = (
            device.empty(*size)
            if self.fill is None
            else device.filled(*size, self.fill)
        )
        out = given.get(_OUT)
        if out is None and self.made is not None:
            out = device.empty(*self.made)
        arrays = {**given, _SLAB: slab, _OUT: out}
        bases = {x: device.address(y) for x, y in arrays.items() if y is not None}
        for launch in self.launches:
            data = bytearray(launch.data)
            for hole in launch.holes:
                address = bases[hole.of] + hole.beyond
                if hole.planes is None:
                    pack_into("<Q", data, hole.at, address)
                else:
                    found = device.map_planes(address, hole.planes).tobytes()
                    data[hole.at : hole.at + len(found)] = found
            of = launch.module, launch.name, launch.grid, launch.block
            device.launch_packed(*of, data, launch.offsets, launch.shared)
        return slab if out is None else out


class Recorder:
    """A device that passes everything on, and writes the script of it.

    Attributes
    ----------
    script : Script or None
        None once anything has happened that a script cannot repeat.
    """

    def __init__(self, device: Device, given: Mapping[str, Array | None]) -> None:
        self._device = device
        self.script: Script | None = Script()
        # By identity: arrays may share memory in this call, and not in the next.
        self._known: dict[int, tuple[Any, ...]] = {
            id(x): (name, 0) for name, x in given.items() if x is not None
        }
        # What is known stays until the script is written, or another takes its place.
        self._alive: list[Any] = []
        # Where the slab lies: nothing else can.
        self._slab = range(0)

    def __getattr__(self, name: str) -> Any:
        """Let the device answer what it is asked; whatever else it does is lost."""
        if name not in _QUESTIONS:
            self.script = None
        return getattr(self._device, name)

    def empty_together(self, parts: Parts) -> list[Array]:
        """Allocate the slab."""
        return self._take_slab(self._device.empty_together(parts), parts, None)

    def filled_together(self, parts: Parts, byte: int) -> list[Array]:
        """Allocate a slab whose bytes are alike."""
        return self._take_slab(self._device.filled_together(parts, byte), parts, byte)

    def _take_slab(
        self, found: list[Array], parts: Parts, fill: int | None
    ) -> list[Array]:
        if self.script is None or self.script.slab_bytes:
            self.script = None
            return found
        _, size = part_offsets(parts)
        self.script.slab_bytes, self.script.fill = size, fill
        start = self._device.address(found[0])
        self._slab = range(start, start + size)
        self._alive += found
        return found

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Allocate the result; a script has nothing else."""
        found = self._device.empty(shape, dtype)
        if self.script is not None and self.script.made is not None:
            self.script = None
        if self.script is not None:
            self.script.made = shape, dtype
            self._alive.append(found)
            self._known[id(found)] = _OUT, 0
        return found

    def constant(self, table: Array) -> Array:
        """Copy a table, once; it has an address for good."""
        found = self._device.constant(table)
        if self.script is not None:
            self.script.kept.append(found)
        return found

    def map_planes(self, address: int, shape: tuple[int, int, int]) -> Any:
        """Describe planes of the slab."""
        found = self._device.map_planes(address, shape)
        self._alive.append(found)
        self._known[id(found)] = _SLAB, address - self._slab.start, shape
        return found

    def launch(
        self,
        module: Module,
        name: str,
        grid: Triple,
        block: Triple,
        args: Sequence[Any],
        shared: int = 0,
    ) -> None:
        """Launch, and write down where addresses belong."""
        self._device.launch(module, name, grid, block, args, shared)
        script = self.script
        if script is None:
            return
        data, offsets = pack(args, self._device.address)
        constant, holes = {id(x) for x in script.kept}, []
        for x, at in zip(args, offsets, strict=True):
            if id(x) in self._known:
                holes.append(Hole(at, *self._known[id(x)]))
            elif x is None or isinstance(x, np.generic) or id(x) in constant:
                continue
            elif (address := self._device.address(x)) in self._slab:
                holes.append(Hole(at, _SLAB, address - self._slab.start))
            else:
                self.script = None
                return
        packed = data, offsets, tuple(holes)
        script.launches.append(Launch(module, name, grid, block, *packed, shared))


_QUESTIONS = (
    "capability",
    "multiprocessors",
    "element",
    "total_bytes",
    "address",
    "shared_bytes",
)


def outline_all(arrays: Iterable[Array | None]) -> Hashable:
    """Return all that launches depend on of arrays, but for their addresses.

    That is which of them are one, too: A may be B, or C.
    """
    given = [*arrays]
    names = [*map(id, given)]
    own = [None if x is None else (x.shape, x.strides, x.dtype) for x in given]
    return *own, *map(names.index, names)


class Scripts:
    """The scripts of an engine, by what they depend on."""

    # Shapes in use at a time are few; a script takes some kilobytes.
    _MOST = 256

    def __init__(self) -> None:
        self._found: dict[Hashable, Script] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: Hashable) -> Script | None:
        """Find a script."""
        return self._found.get(key)

    def keep(self, key: Hashable, script: Script | None) -> None:
        """Keep a script; all others go when there are too many."""
        if script is None:
            return
        with self._lock:
            if len(self._found) >= self._MOST:
                self._found.clear()
            self._found[key] = script
