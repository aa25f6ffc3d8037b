"""The CuPy calls of the CUDA engine, except the call of NVRTC in hopper.py.

Everything except the first copy of a table runs on the current device and stream, and
only `synchronize` and `fetch` wait for them.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...errors import INSTALL_CUDA, EngineUnavailableError, KernelError
from ...typing import Array
from .. import device_memory
from .cublas import choose_exact, multiply
from .driver import ProgramWriter, launcher, run
from .hopper import cubin_of, map_planes, map_rows
from .launch import Parts, Triple, part_offsets
from .packing import pack
from .sources import (
    DYNAMIC_FAMILIES,
    HOPPER_FAMILIES,
    TILE_FAMILY,
    Module,
    source_of,
    tile_ir,
)
from .streams import Streams
from .tuning import Element, tuning_for

# Enumerators of cuda.h: CU_FUNC_ATTRIBUTE_...
_SHARED_SIZE, _MAX_DYNAMIC_SHARED_SIZE = 1, 8

OLDEST_CAPABILITY = 75  # the oldest with dp4a and int8 tensor cores (Turing)

# The oldest driver that captures overlapping launches as graphs: 12.3.
_CAPTURES_OVERLAPS = 12030

_NO_BASES = bytes(8)
_INSTALL = f"Install it with {INSTALL_CUDA}"


@cache
def _module(module: Module) -> Any:
    """Compile a kernel family for a dtype; CuPy loads it on each device as needed."""
    import cupy

    options = ("--std=c++17", *module.options)
    return cupy.RawModule(code=source_of(module), options=options)


def _function(module: Module, name: str, device: int) -> Any:
    from cupy.cuda import driver
    from cupy.cuda.function import Module as Loaded

    if module.family in (*HOPPER_FAMILIES, TILE_FAMILY):
        loaded = Loaded()
        made = tile_ir if module.family == TILE_FAMILY else cubin_of
        loaded.load(made(module))
        function = loaded.get_function(name)
    else:
        # What RawKernel looks up in each of its calls.
        function = _module(module).get_function(name).kernel
    if module.family in DYNAMIC_FAMILIES:
        # More than 48 KiB has to be asked for.
        own = driver.funcGetAttribute(_SHARED_SIZE, function.ptr)
        most = _properties(device)["sharedMemPerBlockOptin"] - own
        driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SHARED_SIZE, most)
    return function


def _refusal(x: Array, device: int) -> KernelError:
    """Return the error of an array that kernels on a device cannot read."""
    if x.data.device_id != device:
        return KernelError(
            f"an array lies on device {x.data.device_id}, and this thread works on "
            f"device {device}",
            f"Copy it there, or work within cupy.cuda.Device({x.data.device_id})",
            "other-device",
        )
    return KernelError(
        f"a {x.dtype} array does not start at a multiple of its {x.itemsize} bytes",
        "Copy the array it is a view of, then take the view",
        "alignment",
    )


@cache
def _properties(device: int) -> dict[str, Any]:
    import cupy

    properties: dict[str, Any] = cupy.cuda.runtime.getDeviceProperties(device)
    return properties


class CudaDevice(Streams):
    """Memory, streams, kernels and int8 products of the current device."""

    multiply, map_planes = staticmethod(multiply), staticmethod(map_planes)
    map_rows = staticmethod(map_rows)

    def __init__(self) -> None:
        super().__init__()
        self._capabilities: dict[int, int] = {}
        self._constants: dict[tuple[int, int], tuple[Array, Array]] = {}
        self._elements: dict[tuple[int, Element], Element] = {}
        self._functions: dict[tuple[Module, str, int], Any] = {}

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Allocate from CuPy's current allocator, or say what would make room."""
        return device_memory.empty(self._cupy, shape, dtype)

    def full(self, shape: tuple[int, ...], dtype: Any, byte: int = 0) -> Array:
        """Allocate, every byte alike."""
        out = self.empty(shape, dtype)
        out.data.memset_async(byte, out.nbytes)
        return out

    def slab(self, size: int, fill: int | None = None) -> Any:
        """Allocate memory without an array; `fill`: what every byte is."""
        memory = device_memory.allocate(self._cupy, size)
        if fill is not None:
            memory.memset_async(fill, size)
        return memory

    def allocate(self, parts: Parts, fill: int | None = None) -> list[Array]:
        """Allocate several arrays in one slab, at multiples of 512 bytes."""
        return self.split(self.slab(part_offsets(parts)[1], fill), parts)

    def split(self, slab: Any, parts: Parts) -> list[Array]:
        """View the arrays of a slab, from its beginning on."""
        offsets, _ = part_offsets(parts)
        return [
            self._cupy.ndarray(shape, dtype, slab + offset)
            for (shape, dtype), offset in zip(parts, offsets, strict=True)
        ]

    def send(self, x: Array) -> Array:
        """Copy a small array of the host; what launches next finds it."""
        # By pinned memory, so that nothing waits, and x need not be kept.
        return self._cupy.asarray(x)

    def fetch(
        self, arrays: Sequence[Array], meanwhile: Callable[[], object] | None = None
    ) -> list[Array]:
        """Copy arrays of one allocation by one call, and wait; `meanwhile` before."""
        starts = [x.data.ptr for x in arrays]
        begin = min(starts)
        size = max(at + x.nbytes for at, x in zip(starts, arrays, strict=True)) - begin
        # Pinned, or the copy would go through the driver's own memory.
        pinned = self._cupy.cuda.alloc_pinned_memory(size)
        first = arrays[starts.index(begin)].data
        first.copy_to_host_async(pinned.ptr, size)
        copied = self.record()
        try:
            if meanwhile is not None:
                meanwhile()
        finally:
            # Its memory returns to CuPy's pool: nothing may still be copied there.
            copied.synchronize()
        host = np.frombuffer(pinned, np.uint8, size)
        return [
            host[at - begin : at - begin + x.nbytes].view(x.dtype).reshape(x.shape)
            for at, x in zip(starts, arrays, strict=True)
        ]

    def constant(self, table: Array) -> Array:
        """Copy a table of the host, once for each device; both stay."""
        key = (self.number(), id(table))
        if key not in self._constants:
            # Any stream may use it next, and the current one may be captured, which
            # refuses to be waited for.
            with self._cupy.cuda.Stream(non_blocking=True) as own:
                copied = self._cupy.asarray(table)
                own.synchronize()
            self._constants.setdefault(key, (table, copied))
        return self._constants[key][1]

    def launch(
        self,
        module: Module,
        name: str,
        grid: Triple,
        block: Triple,
        args: Sequence[Any],
        shared: int = 0,
    ) -> None:
        """Launch a kernel: arrays, None and numbers, in tuples for structures.

        `shared`: bytes of shared memory that a block takes besides its kernel's own.
        """
        device, writer = self.number(), ProgramWriter()
        packed = pack(
            module.family, name, args, lambda x, _: self.addresses([x], device)[0]
        )
        writer.add(self.function(module, name), (*grid, *block, shared), packed)
        self.run(writer.program(), _NO_BASES)

    def function(self, module: Module, name: str) -> int:
        """Return the address of a kernel that is loaded on the current device."""
        key = module, name, self.number()
        if key not in self._functions:
            # If threads load it at once, one stays, because scripts keep its address.
            self._functions.setdefault(key, _function(*key))
        return int(self._functions[key].ptr)

    def driver(self) -> int:
        """Return 1000 major + 10 minor of the newest CUDA that the driver is for."""
        return int(self._cupy.cuda.runtime.driverGetVersion())

    def overlaps(self) -> bool:
        """Tell whether a launch may begin before the one ahead of it has ended."""
        return self.capability() >= 90 and self.driver() >= _CAPTURES_OVERLAPS

    def run(self, program: Array, bases: bytes) -> None:
        """Launch a program; `bases`: addresses and maps of planes, in words."""
        stream = self._cupy.cuda.get_current_stream()
        status = run(launcher(), stream.ptr, program, bases)
        if status != 0:
            self._cupy.cuda.driver.check_status(status)

    def addresses(self, arrays: Iterable[Array | None], device: int) -> list[int]:
        """Return where arrays begin on a device, 0 of None."""
        found = []
        for x in arrays:
            address = 0
            if x is not None:
                data = x.data
                address = data.ptr
                # Either access would end the whole CUDA context.
                if data.device_id != device or address % x.itemsize:
                    raise _refusal(x, device)
            found.append(address)
        return found

    def total_bytes(self) -> int:
        """Memory of the current device."""
        return int(_properties(self.number())["totalGlobalMem"])

    def free_bytes(self) -> int | None:
        """Count what CuPy's pool can still give, if it is the allocator."""
        return device_memory.free_bytes(self._cupy)

    def shared_bytes(self) -> int:
        """Shared memory that a block of the current device can have."""
        return int(_properties(self.number())["sharedMemPerBlockOptin"])

    def multiprocessors(self) -> int:
        """Count the multiprocessors of the current device."""
        return int(_properties(self.number())["multiProcessorCount"])

    def capability(self, number: int | None = None) -> int:
        """Compute capability of a device, or of the current one."""
        number = self.number() if number is None else number
        if number not in self._capabilities:
            told = _properties(number)
            self._capabilities[number] = 10 * int(told["major"]) + int(told["minor"])
        return self._capabilities[number]

    def name(self) -> str:
        """Name the current device as the driver does."""
        return str(_properties(self.number())["name"].decode())

    def element(self) -> Element:
        """Choose what cuBLAS multiplies, which is checked once."""
        tuned = tuning_for(self.capability())
        key = self.number(), tuned.element
        if key not in self._elements:
            self._elements[key] = choose_exact(self, tuned.element)
        return self._elements[key]


def open_device() -> CudaDevice:
    """Make sure that there are CuPy, a driver, and a device that the kernels run on."""
    try:
        import cupy
    except ImportError as error:
        problem = f"the CUDA engine needs CuPy ({error})"
        raise EngineUnavailableError(problem, _INSTALL, "no-cupy") from None
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise EngineUnavailableError(
            f"CUDA finds no device it can use ({error})",
            "With a GPU in the machine, check nvidia-smi and "
            "CUDA_VISIBLE_DEVICES: the driver must be as new as CuPy's CUDA",
            "no-driver",
        ) from None
    if count == 0:
        raise EngineUnavailableError(
            "CUDA finds no device",
            "Check nvidia-smi and CUDA_VISIBLE_DEVICES, or multiply NumPy arrays",
            "no-device",
        )
    device = cupy.cuda.Device()
    if int(device.compute_capability) < OLDEST_CAPABILITY:
        name = runtime.getDeviceProperties(device.id)["name"].decode()
        problem = (
            f"{name} has compute capability {device.compute_capability}, and int8 "
            f"tensor cores begin at {OLDEST_CAPABILITY} (Turing)"
        )
        raise EngineUnavailableError(problem, "Multiply NumPy arrays", "old-device")
    try:
        from cupy.cuda import cublas  # noqa: F401
    except ImportError as error:
        problem = f"the CUDA engine needs cuBLAS ({error})"
        raise EngineUnavailableError(problem, _INSTALL, "no-cublas") from None
    return CudaDevice()
