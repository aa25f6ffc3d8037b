"""What a device asks of CuPy and cuBLAS, by a stand-in that reads it alike."""

import ctypes
import gc
import struct
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier, Thread
from types import SimpleNamespace
from weakref import WeakValueDictionary

import numpy as np
import pytest

from tests.support.cases import cases
from tests.support.cuda.launches import LAUNCH, Config
from tests.support.expect import raises
from tests.support.modules import with_modules
from twom_dist.errors import EngineUnavailableError, KernelError
from twom_dist.kernels.cuda import device as device_module
from twom_dist.kernels.cuda.device import CudaDevice, open_device
from twom_dist.kernels.cuda.driver import ProgramWriter, run
from twom_dist.kernels.cuda.sources import Module

# Type of operands, type of sums, arithmetic: their C types, and the mode needed.
KINDS = {(3, 10, 72): (np.int8, np.int32, 0), (2, 0, 68): (np.float16, np.float32, 16)}


def column_major(address, ld, rows, columns, dtype):
    """View a matrix as cuBLAS does."""
    size = np.dtype(dtype).itemsize
    length = size * (ld * (columns - 1) + rows)
    flat = np.frombuffer((ctypes.c_char * length).from_address(address), dtype)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (size, size * ld))


class Cublas:
    """C = op(A) op(B) on column-major matrices of the host."""

    def __init__(self):
        self.mode, self.pointers = 3, 1  # what somebody else has set
        self.getMathMode = lambda handle: self.mode
        self.getPointerMode = lambda handle: self.pointers
        self.setMathMode = lambda handle, mode: vars(self).update(mode=mode)
        self.setPointerMode = lambda handle, mode: vars(self).update(pointers=mode)

    def gemmEx(self, *given):  # noqa: N802
        sizes, (a, a_type, lda, b, b_type, ldb, beta) = given[:7], given[7:14]
        c, c_type, ldc, compute, algo = given[14:]
        left, right, out = (a, a_type, lda, 0), (b, b_type, ldb, 0), (c, c_type, ldc, 0)
        self.gemmStridedBatchedEx(*sizes, *left, *right, beta, *out, 1, compute, algo)

    def gemmStridedBatchedEx(self, handle, ta, tb, m, n, k, alpha, *rest):  # noqa: N802
        a, a_type, lda, a_step, b, b_type, ldb, b_step = rest[:8]
        beta, c, c_type, ldc, c_step, count, compute, algo = rest[8:]
        given, sums, mode = KINDS[a_type, c_type, compute]
        assert (b_type, self.mode) == (a_type, mode)
        assert self.pointers == 0  # the factors are the host's
        assert (handle, ta, tb, algo) == (7, 1, 0, -1)
        one, zero = (column_major(t, 1, 1, 1, sums) for t in (alpha, beta))
        assert (one, zero) == (1, 0)
        size = np.dtype(given).itemsize
        for t in range(count):
            at = a + size * t * a_step, b + size * t * b_step, c + 4 * t * c_step
            assert all(x % 16 == 0 for x in (*at, lda, ldb, m, k))
            left = column_major(at[0], lda, k, m, given).astype(np.int32)
            right = column_major(at[1], ldb, k, n, given).astype(np.int32)
            column_major(at[2], ldc, m, n, sums)[...] = left.T @ right


@pytest.fixture
def cuda():
    """What a device asks `cupy.cuda` for."""
    runtime = SimpleNamespace(
        CUDARuntimeError=RuntimeError,
        streamPerThread=2,
        getDevice=lambda: 0,
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda i: {"name": b"Old GPU"},
    )
    own = {
        "cublas": Cublas(),
        "device": SimpleNamespace(get_cublas_handle=lambda: 7),
        "runtime": runtime,
        "Device": lambda: SimpleNamespace(id=0, compute_capability="90"),
    }
    with with_modules(**{"cupy": {}, "cupy.cuda": own}):
        import cupy
        import cupy.cuda as module

        cupy.cuda = module
        yield module


class OnDevice:
    def __init__(self, x, device=0, offset=0):
        self.shape, self.strides, self.dtype = x.shape, x.strides, x.dtype
        self.itemsize, ptr = x.itemsize, x.ctypes.data + offset
        self.data = SimpleNamespace(ptr=ptr, device_id=device)


def planes(count, rows, k, seed, dtype="int8"):
    """Planes of 8 bits at an address that 16 divides."""
    rng = np.random.default_rng(seed)
    buffer = np.zeros(count * rows * k + 64, dtype)
    start = -buffer.ctypes.data % 16 // buffer.itemsize
    x = buffer[start : start + count * rows * k].reshape(count, rows, k)
    x[...] = rng.integers(-128, 128, x.shape)
    return x


@cases("element", ["int8", "float16"])
@cases("batch", [1, 3])
@cases("piece", [slice(0, 48), slice(16, 48)])
def test_products_are_row_major_to_us_and_column_major_to_cublas(
    cuda, batch, piece, element
):
    x = planes(6, 32, 48, 1, element)[: 2 * batch : 2, 16:32, piece]
    y = planes(batch, 16, 48, 2, element)[:, :, piece]
    wide = planes(batch, 16, 4 * 32, 3).view(np.int32)
    wide = wide if element == "int8" else wide.view(np.float32)
    sums, before = wide[:, :, :16], wide[:, :, 16:].tobytes()
    CudaDevice().multiply(*map(OnDevice, (x, y, sums)))
    assert (sums == x.astype(int) @ y.astype(int).transpose(0, 2, 1)).all()
    assert wide[:, :, 16:].tobytes() == before
    assert (cuda.cublas.mode, cuda.cublas.pointers) == (3, 1)


OLD = {"id": 0, "compute_capability": "70"}


def fail():
    raise RuntimeError("cudaErrorInsufficientDriver")


def test_devices_and_arrays_that_cannot_be_used(cuda):
    x = np.zeros(4, complex)
    assert open_device().addresses([OnDevice(x), None], 0) == [x.ctypes.data, 0]
    for code, wrong in (("alignment", {"offset": 8}), ("other-device", {"device": 1})):
        with raises(KernelError, code):
            CudaDevice().addresses([OnDevice(x, **wrong)], 0)
    for code, owner, wrong in (
        ("no-cublas", cuda, {"cublas": None}),
        ("no-driver", cuda.runtime, {"getDeviceCount": fail}),
        ("no-device", cuda.runtime, {"getDeviceCount": lambda: 0}),
        ("old-device", cuda, {"Device": lambda: SimpleNamespace(**OLD)}),
    ):
        before = dict(vars(owner))
        vars(owner).update(wrong)
        if code == "no-cublas":
            del owner.cublas
        with raises(EngineUnavailableError, code):
            open_device()
        vars(owner).update(before)


def test_memory_that_is_copied_to_is_kept_until_it_is_copied(cuda):
    """Where what runs meanwhile fails, too: the pool would give it to others."""
    done = []

    class Pinned:
        ptr = 0

        def __del__(self):
            done.append("given back")

    def fail():
        done.append("failed")
        raise KeyError

    event = SimpleNamespace(synchronize=lambda: done.append("copied"))
    cuda.alloc_pinned_memory = lambda size: Pinned()
    cuda.Event = lambda **given: event
    cuda.get_current_stream = lambda: SimpleNamespace(record=lambda event: event)
    data = SimpleNamespace(ptr=64, copy_to_host_async=lambda at, size: None)
    with pytest.raises(KeyError):
        CudaDevice().fetch([SimpleNamespace(data=data, nbytes=8)], fail)
    gc.collect()
    assert done == ["failed", "copied", "given back"]


def test_a_program_fills_its_holes_and_stops_at_a_launch_that_fails():
    found, statuses = [], iter((0, 0, 700, 0, 0, 0))

    @LAUNCH
    def launch(config, function, pointers, extra):
        own = config.contents
        one, other = (ctypes.c_void_p * 2).from_address(pointers)
        number = ctypes.c_double.from_address(other).value
        address = ctypes.c_size_t.from_address(one).value
        sizes = *own.grid, *own.block, own.shared, own.stream, extra
        found.append((function, own.overlaps(), *sizes, address, number))
        return next(statuses)

    writer = ProgramWriter(overlaps=True)
    functions = 10, 11, 11
    for i, function in enumerate(functions):
        packed = struct.pack("<Qd", 5, i + 0.5), (0, 8)
        writer.add(function, (1, 2, 3, 4, 5, 6, 7), packed, [(0, 1, 40 + i)])
    bases = struct.pack("<2q", 1 << 50, 1 << 60)
    at = ctypes.cast(launch, ctypes.c_void_p).value
    assert run(at, 9, writer.program(), bases) == 700
    sizes = 1, 2, 3, 4, 5, 6, 7, 9, None
    rest = [(*sizes, (1 << 60) + 40 + i, i + 0.5) for i in range(3)]
    # The first one waits for what was launched before, and one of the same kernel.
    expected = [(x, i == 1, *rest[i]) for i, x in enumerate(functions)]
    assert found == expected
    # Benchmarks time each launch.
    gpu_clock = pytest.importorskip("benchmarks.gpu_clock")
    assert not any(run(at, 9, x, bases) for x in gpu_clock.split(writer.program()))
    assert found[3:] == [(x, False, *rest) for x, _, *rest in expected]


def test_launches_are_described_as_the_header_declares():
    driver = pytest.importorskip("cuda.bindings.driver")
    names = "gridDimX gridDimY gridDimZ blockDimX blockDimY blockDimZ sharedMemBytes"
    theirs, attribute = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
    for i, name in enumerate(names.split()):
        setattr(theirs, name, i + 1)
    theirs.hStream = driver.CUstream(9)
    value = driver.CUlaunchAttributeValue()
    value.programmaticStreamSerializationAllowed = 1
    attribute.id = driver.CUlaunchAttributeID(6)
    assert attribute.id.name.endswith("_PROGRAMMATIC_STREAM_SERIALIZATION")
    attribute.value = value
    theirs.attrs, theirs.numAttrs = [attribute], 1
    own = Config.from_address(theirs.getPtr())
    assert (*own.grid, *own.block, own.shared, own.stream) == (*range(1, 8), 9)
    assert own.overlaps()


@cases(
    ("capability", "driver", "overlap"),
    [((9, 0), 12030, True), ((9, 0), 12020, False), ((8, 9), 13000, False)],
)
def test_launches_overlap_where_device_and_driver_can(
    cuda, capability, driver, overlap
):
    device_module._properties.cache_clear()
    told = dict(zip(("major", "minor"), capability, strict=True))
    cuda.runtime.getDeviceProperties = lambda i: told
    cuda.runtime.driverGetVersion = lambda: driver
    assert CudaDevice().overlaps() == overlap
    device_module._properties.cache_clear()


def test_kernels_stay_loaded_whose_addresses_scripts_keep(cuda):
    """Two threads may load one at once, and CuPy unloads what nobody holds."""
    import cupy

    device, both, number = CudaDevice(), Barrier(2), count()
    loaded = WeakValueDictionary()

    def load(name):
        both.wait(10)
        kernel = OnDevice(np.zeros(1))
        kernel.ptr = next(number)
        loaded[kernel.ptr] = kernel
        return SimpleNamespace(kernel=kernel)

    cupy.RawModule = lambda **_: SimpleNamespace(get_function=load)
    module, cuda.driver = Module("requantise", (("ONLY", "here"),)), None
    loader = with_modules(**{"cupy.cuda.function": {"Module": None}})
    with loader, ThreadPoolExecutor(2) as pool:
        found = {*pool.map(device.function, [module] * 2, ["name"] * 2)}
    assert found == {*loaded}


def test_threads_tell_their_default_streams_apart(cuda):
    """All have one address, those of ended threads as well."""
    device, found = CudaDevice(), []
    cuda.get_current_stream = lambda: SimpleNamespace(ptr=2)
    for _ in range(3):
        thread = Thread(target=lambda: found.append(device.stream_id()))
        thread.start()
        thread.join()
    found.append(device.stream_id())
    assert len({*found}) == 4
    assert device.stream_id() == found[-1]
