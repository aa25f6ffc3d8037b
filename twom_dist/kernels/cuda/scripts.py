"""Scripts: the launches of a product, written once and run with other addresses.

All other arguments depend only on shapes, strides and options. A script needs one
allocation besides the result, and one call for its launches.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from struct import Struct
from threading import Lock
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ...typing import Array
from .driver import ProgramWriter
from .hopper import TENSOR_MAP
from .launch import Parts, Triple, part_offsets
from .packing import pack
from .sources import TILE_FAMILY, Module

# Bases of a script: the memory of its own, the result, operands; then maps of planes.
_SLAB, _OUT, _GIVEN = range(3)
# Where the arrays that stand in for others begin, each so far from the next: nothing
# that is real lies there.
_APART = 1 << 56
_MAP_WORDS = TENSOR_MAP.itemsize // 8


@dataclass(frozen=True)
class _Planes:
    """Planes so many bytes beyond a base: a stand-in for their map."""

    base: int
    beyond: int
    shape: tuple[int, int, int]


class Script(NamedTuple):
    """A program, and what it allocates."""

    program: Array
    bases: Struct  # packs all addresses
    maps: tuple[_Planes, ...]
    slab_bytes: int
    fill: int | None  # what every byte of the slab is before, if that matters
    made: tuple[tuple[int, ...], Any] | None  # shape and dtype of the result

    def run(self, device: Any, number: int, given: Sequence[Array]) -> Any:
        """Launch it on a device; return the result, or the slab if it makes none."""
        slab = device.slab(self.slab_bytes, self.fill)
        made = None if self.made is None else device.empty(*self.made)
        starts = [slab.ptr, *device.addresses((made, *given), number)]
        bases = self.bases.pack(*starts)
        for x in self.maps:
            bases += device.map_planes(starts[x.base] + x.beyond, x.shape)
        device.run(self.program, bases)
        return slab if made is None else made


class Recorder:
    """A stand-in for a device, that writes a script: nothing is launched.

    So do NumPy arrays, which are never read, for those that a script is run with.
    """

    def __init__(self, device: Any, given: Sequence[Array | None]) -> None:
        self._device, self._writer = device, ProgramWriter(device.overlaps())
        self._maps: dict[_Planes, int] = {}  # the first base of each
        self._slab: tuple[int, int | None] | None = None
        self._made: tuple[tuple[int, ...], Any] | None = None
        self._count, self.given = _GIVEN, [*given]
        for i, x in enumerate(given):
            if x is not None:
                like = x.shape, x.dtype, x.strides
                self.given[i] = self._stand_in(self._count, *like)
                self._count += 1

    def __getattr__(self, name: str) -> Any:
        """Ask the device what it is like."""
        return getattr(self._device, name)

    def _stand_in(
        self, base: int, shape: tuple[int, ...], dtype: Any, strides: Any = None
    ) -> Array:
        address, kind = (1 + base) * _APART, np.dtype(dtype).str
        header = {"shape": shape, "typestr": kind, "strides": strides, "version": 3}
        header["data"] = address, False
        return np.asarray(SimpleNamespace(__array_interface__=header))

    def allocate(self, parts: Parts, fill: int | None = None) -> list[Array]:
        """View the slab; a script has one."""
        assert self._slab is None
        offsets, size = part_offsets(parts)
        self._slab = size, fill
        slab = self._stand_in(_SLAB, (size,), np.uint8)
        return [
            np.ndarray(shape, dtype, slab, offset)
            for (shape, dtype), offset in zip(parts, offsets, strict=True)
        ]

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Name the result; a script makes nothing else."""
        assert self._made is None
        self._made = shape, dtype
        return self._stand_in(_OUT, shape, dtype)

    def addresses(self, arrays: Iterable[Array], device: int) -> list[int]:
        """Return where arrays begin: a constant is where it is."""
        return [self._address(x, device) for x in arrays]

    def _address(self, x: Array, device: int) -> int:
        if isinstance(x, np.ndarray) and x.ctypes.data >= _APART:
            return int(x.ctypes.data)
        return int(self._device.addresses([x], device)[0])

    def map_planes(self, address: int, shape: tuple[int, int, int]) -> _Planes:
        """Stand in for a map of planes of the slab."""
        base, beyond = divmod(address, _APART)
        planes = _Planes(base - 1, beyond, shape)
        self._maps.setdefault(planes, self._count + _MAP_WORDS * len(self._maps))
        return planes

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
        holes: list[tuple[int, int, int]] = []
        number = self._device.number()

        def locate(x: Any, at: int) -> int | bytes:
            if isinstance(x, _Planes):
                first = self._maps[x]
                holes.extend((at + 8 * i, first + i, 0) for i in range(_MAP_WORDS))
                return b""
            base, beyond = divmod(self._address(x, number), _APART)
            if base > 0:
                holes.append((at, base - 1, beyond))
                return 0
            return beyond

        packed = pack(module.family, name, args, locate)
        function = self._device.function(module, name)
        sizes, waits = (*grid, *block, shared), module.family != TILE_FAMILY
        self._writer.add(function, sizes, packed, holes, waits)

    def script(self) -> Script:
        """Return what has been written."""
        packer, program = Struct(f"<{self._count}Q"), self._writer.program()
        slab = self._slab or (0, None)
        return Script(program, packer, (*self._maps,), *slab, self._made)


class Scripts:
    """The scripts of an engine, by what they depend on."""

    _MOST = 256  # shapes in use at a time are few; a script takes some kilobytes

    def __init__(self) -> None:
        self._found: dict[Hashable, Script] = {}
        self._lock = Lock()

    def run(
        self,
        device: Any,
        number: int,
        key: Hashable,
        given: Sequence[Array | None],
        write: Callable[..., object],
        alike: Hashable = None,
    ) -> Any:
        """Run the script that `write` writes: it is given a `Recorder`, and arrays.

        `number`: that of the device; `alike`: see `FusedProduct`. All scripts go when
        there are too many.
        """
        arrays = [x for x in given if x is not None]
        if alike is None:
            like = [(x.shape, x.strides, x.dtype) for x in arrays]
            alike = *like, *(x is None for x in given)
        key = number, key, alike
        script = self._found.get(key)
        if script is None:
            recorder = Recorder(device, given)
            write(recorder, *recorder.given)
            script = recorder.script()
            with self._lock:
                if len(self._found) >= self._MOST:
                    self._found.clear()
                self._found[key] = script
        return script.run(device, number, arrays)
