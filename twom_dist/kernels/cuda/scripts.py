"""Scripts: the launches of a product, written once and run with other addresses.

All other arguments depend only on shapes, strides and options. A script needs one
allocation besides the result, and no Python code for single arguments.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from struct import pack_into
from threading import Lock
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ...typing import Array
from .launch import Parts, Triple, part_offsets
from .packing import pack
from .sources import Module

# Memory of the script's own, and the result, beside the names of operands.
_SLAB, _OUT = "slab", "out"
# Where the arrays that stand in for others begin, each so far from the next: nothing
# that is real lies there.
_APART = 1 << 56


class Hole(NamedTuple):
    """Where an address belongs: `beyond` bytes from that of `of`, at an offset.

    Or the tensor map of planes there, where `planes` is their shape.
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
    fill: int | None = None  # what every byte of the slab is before, if that matters
    made: tuple[tuple[int, ...], Any] | None = None

    def run(self, device: Any, given: Mapping[str, Array | None]) -> Array:
        """Launch it all, and return the result, or the slab if there is none."""
        size = ((self.slab_bytes,), np.uint8)
        slab = (
            device.empty(*size) if self.fill is None else device.full(*size, self.fill)
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
                    found = device.map_planes(address, hole.planes)
                    data[hole.at : hole.at + len(found)] = found
            of = launch.module, launch.name, launch.grid, launch.block
            device.launch_packed(*of, data, launch.offsets, launch.shared)
        return slab if out is None else out


@dataclass(frozen=True)
class _Planes:
    """A stand-in for a tensor map."""

    address: int
    shape: tuple[int, int, int]


class Recorder:
    """A stand-in for a device, that writes a script: nothing is launched.

    So do NumPy arrays, which are never read, for those that a script is run with.
    """

    def __init__(self, device: Any, given: Mapping[str, Array | None]) -> None:
        self._device, self.script = device, Script()
        self._names: list[str] = []
        made: dict[int, Array] = {}
        for name, x in given.items():
            # Arrays that are one, are one to the script.
            if x is not None and id(x) not in made:
                made[id(x)] = self._stand_in(name, x.shape, x.dtype, x.strides)
        self.given = {k: None if x is None else made[id(x)] for k, x in given.items()}

    def __getattr__(self, name: str) -> Any:
        """Ask the device what it is like."""
        return getattr(self._device, name)

    def _stand_in(
        self, name: str, shape: tuple[int, ...], dtype: Any, strides: Any = None
    ) -> Array:
        self._names.append(name)
        address, kind = len(self._names) * _APART, np.dtype(dtype).str
        header = {"shape": shape, "typestr": kind, "strides": strides, "version": 3}
        header["data"] = address, False
        return np.asarray(SimpleNamespace(__array_interface__=header))

    def allocate(self, parts: Parts, fill: int | None = None) -> list[Array]:
        """View the slab; a script has one."""
        assert self.script.slab_bytes == 0
        offsets, size = part_offsets(parts)
        self.script.slab_bytes, self.script.fill = size, fill
        slab = self._stand_in(_SLAB, (size,), np.uint8)
        return [
            np.ndarray(shape, dtype, slab, offset)
            for (shape, dtype), offset in zip(parts, offsets, strict=True)
        ]

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Name the result; a script makes nothing else."""
        assert self.script.made is None
        self.script.made = shape, dtype
        return self._stand_in(_OUT, shape, dtype)

    def address(self, x: Array) -> int:
        """Return where an array begins: a constant is where it is."""
        own = isinstance(x, np.ndarray) and x.ctypes.data >= _APART
        return int(x.ctypes.data) if own else int(self._device.address(x))

    def map_planes(self, address: int, shape: tuple[int, int, int]) -> Any:
        """Stand in for a map of planes of the slab."""
        return _Planes(address, shape)

    def launch(
        self,
        module: Module,
        name: str,
        grid: Triple,
        block: Triple,
        args: Iterable[Any],
        shared: int = 0,
    ) -> None:
        """Write down a launch, and where addresses belong."""
        holes = []

        def locate(x: Any, at: int) -> int | bytes:
            planes = x.shape if isinstance(x, _Planes) else None
            address: int = self.address(x) if planes is None else x.address
            number, beyond = divmod(address, _APART)
            if number > 0:
                holes.append(Hole(at, self._names[number - 1], beyond, planes))
            return address if planes is None else b""

        packed = pack(module.family, name, args, locate)
        launch = Launch(module, name, grid, block, *packed, tuple(holes), shared)
        self.script.launches.append(launch)


class Scripts:
    """The scripts of an engine, by what they depend on."""

    _MOST = 256  # shapes in use at a time are few; a script takes some kilobytes

    def __init__(self) -> None:
        self._found: dict[Hashable, Script] = {}
        self._lock = Lock()

    def run(
        self,
        device: Any,
        key: Hashable,
        given: Mapping[str, Array | None],
        write: Callable[..., object],
    ) -> Array:
        """Run the script that `write` writes: it is given a `Recorder`, and arrays.

        All scripts go when there are too many.
        """
        arrays = given.values()
        like = tuple(x is not None and (x.shape, x.strides, x.dtype) for x in arrays)
        # Which of them are one, too: A may be B, or C.
        names = [*map(id, arrays)]
        key = key, like, *map(names.index, names)
        script = self._found.get(key)
        if script is None:
            recorder = Recorder(device, given)
            write(recorder, **recorder.given)
            script = recorder.script
            with self._lock:
                if len(self._found) >= self._MOST:
                    self._found.clear()
                self._found[key] = script
        return script.run(device, given)
