"""The calls of CuPy and cuBLAS, recorded by a stand-in that reads them alike."""

import ctypes
import struct
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from tests.support.expect import raises
from twom_dist.errors import EngineUnavailableError, KernelError, MemoryLimitError
from twom_dist.kernels import room
from twom_dist.kernels.cuda import device as device_module
from twom_dist.kernels.cuda.device import CudaDevice, open_device
from twom_dist.kernels.cuda.launch import part_offsets
from twom_dist.kernels.cuda.sources import module_for
from twom_dist.moduli import ZERO_ROW

# Type of operands, type of sums, arithmetic: their C types, and the mode needed.
KINDS = {
    (3, 10, 72): (np.int8, np.int32, 0),
    (2, 0, 68): (np.float16, np.float32, 16),
}


class OnDevice:
    """An array as the launcher sees it: an address, a shape, strides."""

    def __init__(self, x):
        self.host = x
        self.shape, self.strides, self.dtype = x.shape, x.strides, x.dtype
        self.itemsize = x.itemsize
        self.data = SimpleNamespace(ptr=x.ctypes.data, device_id=0)


def column_major(address, ld, rows, columns, dtype):
    """View a matrix as cuBLAS does."""
    size = np.dtype(dtype).itemsize
    length = size * (ld * (columns - 1) + rows)
    flat = np.ctypeslib.as_array((ctypes.c_char * length).from_address(address))
    flat = flat.view(np.uint8).view(dtype)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (size, size * ld))


class Cublas:
    """C = op(A) op(B) on column-major matrices of the host."""

    def __init__(self):
        self.calls = []
        self.mode, self.pointers = 3, 1  # what somebody else has set

    def getMathMode(self, handle):  # noqa: N802
        return self.mode

    def setMathMode(self, handle, mode):  # noqa: N802
        self.mode = mode

    def getPointerMode(self, handle):  # noqa: N802
        return self.pointers

    def setPointerMode(self, handle, mode):  # noqa: N802
        self.pointers = mode

    def gemmEx(self, handle, ta, tb, m, n, k, alpha, *rest):  # noqa: N802
        a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, algo = rest
        self.calls.append("gemmEx")
        given, sums, mode = KINDS[a_type, c_type, compute]
        assert (b_type, self.mode) == (a_type, mode)
        assert self.pointers == 0  # the factors are the host's
        assert (handle, ta, tb, algo) == (7, 1, 0, -1)
        one, zero = (column_major(t, 1, 1, 1, sums) for t in (alpha, beta))
        assert (one, zero) == (1, 0)
        assert all(t % 16 == 0 for t in (a, b, c, lda, ldb, m, k))
        left = column_major(a, lda, k, m, given).astype(np.int32)
        right = column_major(b, ldb, k, n, given).astype(np.int32)
        column_major(c, ldc, m, n, sums)[...] = left.T @ right

    def gemmStridedBatchedEx(self, handle, ta, tb, m, n, k, alpha, *rest):  # noqa: N802
        a, a_type, lda, a_step, b, b_type, ldb, b_step = rest[:8]
        beta, c, c_type, ldc, c_step, count, compute, algo = rest[8:]
        for t in range(count):
            size = np.dtype(KINDS[a_type, c_type, compute][0]).itemsize
            left = a + size * t * a_step, a_type, lda
            right = b + size * t * b_step, b_type, ldb
            out = c + 4 * t * c_step, c_type, ldc
            shape, last = (handle, ta, tb, m, n, k, alpha), (compute, algo)
            self.gemmEx(*shape, *left, *right, beta, *out, *last)
        self.calls[-count:] = ["gemmStridedBatchedEx"]


@pytest.fixture
def cupy(monkeypatch):
    """Stand in for CuPy on a machine with one device."""

    class CUDARuntimeError(RuntimeError):
        pass

    module, cuda = ModuleType("cupy"), ModuleType("cupy.cuda")
    module.cuda, cuda.cublas = cuda, Cublas()
    cuda.device = SimpleNamespace(get_cublas_handle=lambda: 7)
    cuda.runtime = SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        streamPerThread=2,
        getDevice=lambda: 0,
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda i: {"name": b"Old GPU", "totalGlobalMem": 1 << 30},
        memGetInfo=lambda: (5, 10),
    )
    cuda.Device = lambda: SimpleNamespace(id=0, compute_capability="90")
    cuda.MemoryPool, cuda.get_allocator = SimpleNamespace, lambda: print
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    return module


def planes(count, rows, k, seed, dtype="int8"):
    """Planes of 8 bits at an address that 16 divides."""
    rng = np.random.default_rng(seed)
    buffer = np.zeros(count * rows * k + 64, dtype)
    start = -buffer.ctypes.data % 16 // buffer.itemsize
    x = buffer[start : start + count * rows * k].reshape(count, rows, k)
    x[...] = rng.integers(-128, 128, x.shape)
    return x


@pytest.mark.parametrize("element", ["int8", "float16"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("piece", [slice(0, 48), slice(16, 48)])
def test_products_are_row_major_to_us_and_column_major_to_cublas(
    cupy, batch, piece, element
):
    x, y = (
        planes(6, 32, 48, 1, element)[: 2 * batch : 2],
        planes(batch, 16, 48, 2, element),
    )
    x, y = x[:, 16:32, piece], y[:, :, piece]
    wide = planes(batch, 16, 4 * 32, 3).view(np.int32)
    if element == "float16":
        wide = wide.view(np.float32)
    sums = wide[:, :, :16]
    before = wide[:, :, 16:].tobytes()
    multiply = getattr(CudaDevice(), f"multiply_{element}")
    multiply(*map(OnDevice, (x, y, sums)))
    exact = x.astype(np.int64) @ y.astype(np.int64).transpose(0, 2, 1)
    assert (sums == exact).all()
    assert wide[:, :, 16:].tobytes() == before
    name = "gemmEx" if batch == 1 else "gemmStridedBatchedEx"
    assert cupy.cuda.cublas.calls == [name]
    assert (cupy.cuda.cublas.mode, cupy.cuda.cublas.pointers) == (3, 1)


def test_arguments_are_what_cupy_takes(cupy, monkeypatch):
    launched = []

    def launch(function, *given):
        *sizes, shared, stream, parameters, extra = given
        assert extra == 0
        told = (ctypes.c_uint64 * 5).from_address(parameters)
        values = [
            ctypes.string_at(p, n) for p, n in zip(told, (4, 8, 8, 4, 8), strict=True)
        ]
        launched.append(([function, *sizes, shared, stream], values))

    function = SimpleNamespace(ptr=77)
    monkeypatch.setattr(device_module, "_function", lambda *of: function)
    cupy.cuda.driver = SimpleNamespace(launchKernel=launch)
    cupy.cuda.get_current_stream = lambda: SimpleNamespace(ptr=5)
    x = OnDevice(np.zeros(4, np.complex128))
    args = (np.int32(3), x, None, np.float32(0.5), np.float64(-1))
    CudaDevice().launch(module_for("combine"), "combine", (1, 2, 3), (32, 8, 1), args)
    found, values = launched[0]
    assert found == [77, 1, 2, 3, 32, 8, 1, 0, 5]
    assert values == [*map(struct.pack, "iQQfd", (3, x.data.ptr, 0, 0.5, -1))]
    x.data.ptr += 8
    with raises(KernelError, "alignment"):
        CudaDevice().launch(module_for("combine"), "c", (1, 1, 1), (1, 1, 1), (x,))
    x.data.device_id = 1
    with raises(KernelError, "other-device"):
        CudaDevice().launch(module_for("combine"), "c", (1, 1, 1), (1, 1, 1), (x,))
    assert len(launched) == 1


def test_a_full_device_says_what_would_make_room(cupy):
    def refuse(shape, dtype):
        raise MemoryError

    cupy.empty = refuse
    with raises(MemoryLimitError, "device-memory") as caught:
        CudaDevice().empty((10, 10), np.float64)
    assert "800 more bytes" in caught.value.problem


def test_arrays_of_one_allocation_do_not_overlap(cupy):
    cupy.empty = lambda shape, dtype: SimpleNamespace(data=np.uint64(4096), size=shape)
    cupy.ndarray = lambda shape, dtype, memory: (shape, dtype, int(memory))
    parts = (((3, 200), np.int8), ((5,), np.int32), ((1, 1), np.int8))
    found = CudaDevice().empty_together(parts)
    assert [x[:2] for x in found] == list(parts)
    assert [x[2] - 4096 for x in found] == [0, 1024, 1536]
    assert part_offsets(parts)[1] == 2048


class Memory:
    """Memory of the host that is copied as a device's is."""

    def __init__(self, ptr, calls):
        self.ptr, self.calls = ptr, calls

    def __add__(self, offset):
        return Memory(self.ptr + offset, self.calls)

    def memset_async(self, byte, size):
        self.calls.append("memset")
        ctypes.memset(self.ptr, byte, size)

    def copy_to_host_async(self, address, size):
        self.calls.append("copy")
        ctypes.memmove(address, self.ptr, size)


def test_arrays_of_one_allocation_are_filled_and_fetched_by_one_call(cupy):
    memory, calls = np.zeros(4096, np.uint8), []

    def ndarray(shape, dtype, data):
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return SimpleNamespace(shape=shape, dtype=dtype, data=data, nbytes=nbytes)

    def empty(shape, dtype):
        return ndarray(shape, dtype, Memory(memory.ctypes.data, calls))

    def pin(size):
        pinned.append(np.zeros(size, np.uint8))
        return type("Pinned", (np.ndarray,), {"ptr": pinned[-1].ctypes.data})(
            size, np.uint8, pinned[-1]
        )

    pinned: list = []
    cupy.cuda.alloc_pinned_memory = pin
    event = SimpleNamespace(synchronize=lambda: calls.append("wait"))
    stream = SimpleNamespace(record=lambda _: event)
    cupy.cuda.Event = SimpleNamespace
    cupy.empty, cupy.ndarray = empty, ndarray
    cupy.cuda.get_current_stream = lambda: stream
    parts = (((3, 50), np.int32), ((5,), np.int64), ((2,), np.int8))
    device = CudaDevice()
    first, second, third = device.filled_together(parts, 0xC0)
    assert (memory[:2048] == 0xC0).all()
    assert not memory[2048:].any()
    memory[1024:1064] = np.arange(5).view(np.uint8)
    third, second = device.fetch([third, second], lambda: calls.append("meanwhile"))
    assert calls == ["memset", "copy", "meanwhile", "wait"]
    assert second.tolist() == list(range(5))
    assert third.tolist() == [-64, -64]
    assert (device.fetch([first])[0] == np.full((3, 50), ZERO_ROW)).all()
    calls.clear()

    def fail():
        calls.append("meanwhile")
        raise RuntimeError("cudaErrorLaunchFailure")

    # What is copied to must not be used again before it has been.
    with pytest.raises(RuntimeError, match="LaunchFailure"):
        device.fetch([first], fail)
    assert calls == ["copy", "meanwhile", "wait"]


class Streams:
    """Streams of a device, and which one is current; one may be captured."""

    def __init__(self):
        self.captured = self.current = SimpleNamespace(synchronize=self.refuse)
        self.waited = 0

    def refuse(self):
        raise RuntimeError("cudaErrorStreamCaptureUnsupported")

    @contextmanager
    def stream(self, non_blocking):
        assert non_blocking  # others wait for the legacy stream, and it for them
        before, self.current = self.current, SimpleNamespace(synchronize=self.wait)
        yield self.current
        self.current = before

    def wait(self):
        self.waited += 1


def test_a_table_is_copied_once_while_a_stream_is_captured(cupy, monkeypatch):
    streams, copies, allocators = Streams(), [], []

    @contextmanager
    def using_allocator(allocator):
        allocators.append(allocator)
        yield

    def asarray(table):
        assert streams.current is not streams.captured
        copies.append(table)
        return table.copy()

    cupy.asarray, cupy.cuda.Stream = asarray, streams.stream
    cupy.cuda.using_allocator = using_allocator
    cupy.cuda.get_current_stream = lambda: streams.current
    table, device = np.arange(5), CudaDevice()
    first = device.constant(table)
    assert device.constant(table) is first
    assert (len(copies), streams.waited) == (1, 1)
    assert allocators == [print]
    # Of the memory that a product keeps, it would keep all.
    monkeypatch.setattr(room, "free_bytes", lambda cupy: None)
    cupy.cuda.MemoryPool = lambda below: None
    own = room.OwnMemory()
    cupy.cuda.get_allocator = lambda: own.malloc
    device.constant(np.arange(6))
    assert allocators == [print, print]


def test_a_device_that_is_new_enough_is_opened(cupy):
    assert isinstance(open_device(), CudaDevice)


def test_too_old_a_device_is_named(cupy):
    cupy.cuda.Device = lambda: SimpleNamespace(id=0, compute_capability="70")
    with raises(EngineUnavailableError, "old-device"):
        open_device()


def test_no_device_and_an_old_driver_are_told_apart(cupy):
    cupy.cuda.runtime.getDeviceCount = lambda: 0
    with raises(EngineUnavailableError, "no-device"):
        open_device()

    def fail():
        raise cupy.cuda.runtime.CUDARuntimeError("cudaErrorInsufficientDriver")

    cupy.cuda.runtime.getDeviceCount = fail
    with raises(EngineUnavailableError, "no-driver"):
        open_device()


def test_a_missing_cublas_is_named(cupy):
    del cupy.cuda.cublas
    with raises(EngineUnavailableError, "no-cublas"):
        open_device()
