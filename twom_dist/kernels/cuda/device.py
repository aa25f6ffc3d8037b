"""The CuPy calls of the CUDA engine, except the call of NVRTC in hopper.py.

Everything except the first copy of a table runs on the current device and stream, and
only `synchronize` and `fetch` wait for them.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...errors import INSTALL_CUDA, EngineUnavailableError, KernelError
from ...typing import Array
from .. import device_memory
from .cublas import choose_exact, multiply
from .hopper import cubin_of, map_planes
from .launch import Parts, Triple, part_offsets
from .packing import Arguments, pack
from .sources import DYNAMIC_FAMILIES, HOPPER_FAMILIES, Module, source_of
from .streams import Streams, current_device
from .tuning import Element, tuning_for

# Enumerators of cuda.h: CU_FUNC_ATTRIBUTE_...
_SHARED_SIZE, _MAX_DYNAMIC_SHARED_SIZE = 1, 8

OLDEST_CAPABILITY = 75  # the oldest with dp4a and int8 tensor cores (Turing)

_INSTALL = f"Install it with {INSTALL_CUDA}"


@cache
def _module(module: Module) -> Any:
    """Compile a kernel family for a dtype; CuPy loads it on each device as needed."""
    import cupy

    options = ("--std=c++17", *module.options)
    return cupy.RawModule(code=source_of(module), options=options)


@cache
def _function(module: Module, name: str, device: int) -> Any:
    from cupy.cuda import driver
    from cupy.cuda.function import Module as Loaded

    if module.family in HOPPER_FAMILIES:
        loaded = Loaded()
        loaded.load(cubin_of(module))
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


def _address(x: Array, device: int) -> int:
    """Return where an array lies, if that is on the device."""
    # Either access would end the whole CUDA context.
    if x.data.device_id != device:
        raise KernelError(
            f"an array lies on device {x.data.device_id}, and this thread works on "
            f"device {device}",
            f"Copy it there, or work within cupy.cuda.Device({x.data.device_id})",
            "other-device",
        )
    address = int(x.data.ptr)
    if address % x.itemsize:
        raise KernelError(
            f"a {x.dtype} array does not start at a multiple of its {x.itemsize} bytes",
            "Copy the array it is a view of, then take the view",
            "alignment",
        )
    return address


@cache
def _properties(device: int) -> dict[str, Any]:
    import cupy

    properties: dict[str, Any] = cupy.cuda.runtime.getDeviceProperties(device)
    return properties


class CudaDevice(Streams):
    """Memory, streams, kernels and int8 products of the current device."""

    multiply, map_planes = staticmethod(multiply), staticmethod(map_planes)

    def __init__(self) -> None:
        super().__init__()
        self._constants: dict[tuple[int, int], tuple[Array, Array]] = {}
        self._elements: dict[tuple[int, Element], Element] = {}
        self._arguments = Arguments()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Allocate from CuPy's current allocator, or say what would make room."""
        return device_memory.empty(self._cupy, shape, dtype)

    def full(self, shape: tuple[int, ...], dtype: Any, byte: int = 0) -> Array:
        """Allocate, every byte alike."""
        out = self.empty(shape, dtype)
        out.data.memset_async(byte, out.nbytes)
        return out

    def allocate(self, parts: Parts, fill: int | None = None) -> list[Array]:
        """Allocate several arrays at once, at multiples of 512 bytes.

        `fill`: what every byte is.
        """
        _, size = part_offsets(parts)
        if fill is None:
            return self.split(self.empty((size,), np.uint8), parts)
        return self.split(self.full((size,), np.uint8, fill), parts)

    def split(self, whole: Array, parts: Parts) -> list[Array]:
        """View the arrays of one allocation, from its beginning on."""
        offsets, _ = part_offsets(parts)
        return [
            self._cupy.ndarray(shape, dtype, whole.data + offset)
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
        key = (current_device(), id(table))
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
        device = current_device()
        packed = pack(module.family, name, args, lambda x, _: _address(x, device))
        self.launch_packed(module, name, grid, block, *packed, shared)

    def launch_packed(
        self,
        module: Module,
        name: str,
        grid: Triple,
        block: Triple,
        data: bytes | bytearray,
        offsets: tuple[int, ...],
        shared: int = 0,
    ) -> None:
        """Launch a kernel whose arguments are packed."""
        from cupy.cuda import driver, get_current_stream

        function = _function(module, name, current_device())
        stream = get_current_stream().ptr
        pointers = self._arguments.set(data, offsets)
        driver.launchKernel(function.ptr, *grid, *block, shared, stream, pointers, 0)

    def address(self, x: Array) -> int:
        """Return where an array begins; refuse what a kernel could not read."""
        return _address(x, current_device())

    def total_bytes(self) -> int:
        """Memory of the current device."""
        return int(_properties(current_device())["totalGlobalMem"])

    def free_bytes(self) -> int | None:
        """Count what CuPy's pool can still give, if it is the allocator."""
        return device_memory.free_bytes(self._cupy)

    def shared_bytes(self) -> int:
        """Shared memory that a block of the current device can have."""
        return int(_properties(current_device())["sharedMemPerBlockOptin"])

    def multiprocessors(self) -> int:
        """Count the multiprocessors of the current device."""
        return int(_properties(current_device())["multiProcessorCount"])

    def number(self) -> int:
        """Return the number of the current device."""
        return current_device()

    def capability(self) -> int:
        """Compute capability of the current device."""
        properties = _properties(current_device())
        return 10 * int(properties["major"]) + int(properties["minor"])

    def element(self) -> Element:
        """Choose what cuBLAS multiplies, which is checked once."""
        tuned = tuning_for(self.capability())
        key = current_device(), tuned.element
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
