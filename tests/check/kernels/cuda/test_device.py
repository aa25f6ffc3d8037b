"""What a device asks of CuPy and cuBLAS, by a stand-in that reads it alike."""

import ctypes
import struct
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.expect import raises
from twom_dist.errors import EngineUnavailableError, KernelError, MemoryLimitError
from twom_dist.kernels.cuda import device as device_module
from twom_dist.kernels.cuda.device import CudaDevice, open_device
from twom_dist.kernels.cuda.launch import part_offsets
from twom_dist.kernels.cuda.sources import module_for
from twom_dist.moduli import ZERO_ROW


class OnDevice:
    """An array as the launcher sees it: an address, a shape, strides."""

    def __init__(self, x):
        self.host = x
        self.shape, self.strides, self.dtype = x.shape, x.strides, x.dtype
        self.itemsize = x.itemsize
        self.data = SimpleNamespace(ptr=x.ctypes.data, device_id=0)


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
    x = planes(6, 32, 48, 1, element)[: 2 * batch : 2, 16:32, piece]
    y = planes(batch, 16, 48, 2, element)[:, :, piece]
    wide = planes(batch, 16, 4 * 32, 3).view(np.int32)
    wide = wide if element == "int8" else wide.view(np.float32)
    sums, before = wide[:, :, :16], wide[:, :, 16:].tobytes()
    getattr(CudaDevice(), f"multiply_{element}")(*map(OnDevice, (x, y, sums)))
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
    x, module = OnDevice(np.zeros(4, np.complex128)), module_for("combine")
    args = (np.int32(3), x, None, np.float32(0.5), np.float64(-1))
    CudaDevice().launch(module, "combine", (1, 2, 3), (32, 8, 1), args)
    found, values = launched[0]
    assert found == [77, 1, 2, 3, 32, 8, 1, 0, 5]
    assert values == [*map(struct.pack, "iQQfd", (3, x.data.ptr, 0, 0.5, -1))]
    x.data.ptr += 8
    with raises(KernelError, "alignment"):
        CudaDevice().launch(module, "c", (1, 1, 1), (1, 1, 1), (x,))
    x.data.device_id = 1
    with raises(KernelError, "other-device"):
        CudaDevice().launch(module, "c", (1, 1, 1), (1, 1, 1), (x,))
    assert len(launched) == 1


def test_a_full_device_says_what_would_make_room(cupy):
    def refuse(shape, dtype):
        raise MemoryError

    cupy.empty = refuse
    with raises(MemoryLimitError, "device-memory") as caught:
        CudaDevice().empty((10, 10), np.float64)
    assert "800 more bytes" in caught.value.problem


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
    memory, calls, pinned = np.zeros(4096, np.uint8), [], []

    def ndarray(shape, dtype, data):
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return SimpleNamespace(shape=shape, dtype=dtype, data=data, nbytes=nbytes)

    def pin(size):
        pinned.append(np.zeros(size, np.uint8))
        own = type("Pinned", (np.ndarray,), {"ptr": pinned[-1].ctypes.data})
        return own(size, np.uint8, pinned[-1])

    cupy.cuda.alloc_pinned_memory = pin
    event = SimpleNamespace(synchronize=lambda: calls.append("wait"))
    stream = SimpleNamespace(record=lambda _: event)
    cupy.cuda.Event, cupy.ndarray = SimpleNamespace, ndarray
    cupy.empty = lambda *of: ndarray(*of, Memory(memory.ctypes.data, calls))
    cupy.cuda.get_current_stream = lambda: stream
    parts = (((3, 50), np.int32), ((5,), np.int64), ((2,), np.int8))
    assert part_offsets(parts)[0] == (0, 1024, 1536)
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
        raise RuntimeError("cudaErrorLaunchFailure")

    # What is copied to must not be used again before it has been.
    with pytest.raises(RuntimeError, match="LaunchFailure"):
        device.fetch([first], fail)
    assert calls == ["copy", "wait"]


def missing_driver(cupy):
    def fail():
        raise cupy.cuda.runtime.CUDARuntimeError("cudaErrorInsufficientDriver")

    cupy.cuda.runtime.getDeviceCount = fail


def old_device(cupy):
    cupy.cuda.Device = lambda: SimpleNamespace(id=0, compute_capability="70")


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (old_device, "old-device"),
        (lambda x: setattr(x.cuda.runtime, "getDeviceCount", lambda: 0), "no-device"),
        (missing_driver, "no-driver"),
        (lambda x: delattr(x.cuda, "cublas"), "no-cublas"),
    ],
)
def test_devices_that_cannot_be_opened(cupy, spoil, code):
    assert isinstance(open_device(), CudaDevice)
    spoil(cupy)
    with raises(EngineUnavailableError, code):
        open_device()


# --- streams ------------------------------------------------------------------------


class Stream:
    """A stream of CuPy that lists what is asked of it."""

    null, made = SimpleNamespace(ptr=0), 0
    calls: list = []  # noqa: RUF012
    current: list = []  # noqa: RUF012

    def __init__(self, **options):
        self.ptr, Stream.made = 7, Stream.made + 1

    def __enter__(self):
        self.current.append(self)
        return self

    def __exit__(self, *_):
        self.current.pop()

    def record(self, event):
        self.calls.append(("record", event))
        return SimpleNamespace(synchronize=self.synchronize)

    def wait_event(self, event):
        self.calls.append(("wait_event", event))

    def synchronize(self):
        self.calls.append("wait")


@pytest.fixture
def stream(cupy):
    """CuPy's streams, the null one of which is current."""
    Stream.made, Stream.calls, Stream.current = 0, [], [Stream.null]
    cupy.cuda.Stream = Stream
    cupy.cuda.Event = lambda disable_timing: f"event, {disable_timing}"
    cupy.cuda.get_current_stream = lambda: Stream.current[-1]
    return Stream


def test_tasks_have_a_stream_of_their_thread_and_wait_for_events(stream):
    """The default stream gives way to a blocking one; another is left as it is."""
    device = CudaDevice()
    for _ in range(2):
        with device.stream():
            assert device.stream_id()[1] == 7
            with device.stream():
                device.synchronize()
            device.wait_for("made")
    assert stream.calls == 2 * [
        ("record", "event, True"),
        "wait",
        ("wait_event", "made"),
    ]
    assert stream.current == [stream.null]
    assert stream.made == 1


def in_a_thread(function):
    thread = Thread(target=function)
    thread.start()
    thread.join()


def test_a_thread_that_ends_hands_its_stream_on(stream):
    device = CudaDevice()

    def run():
        with device.stream():
            pass

    for _ in range(3):
        in_a_thread(run)
    assert stream.made == 1


def test_threads_tell_their_default_streams_apart(cupy):
    """All have one address, those of ended threads as well."""
    device, found = CudaDevice(), []
    cupy.cuda.get_current_stream = lambda: SimpleNamespace(ptr=2)
    for _ in range(3):
        in_a_thread(lambda: found.append(device.stream_id()))
    found.append(device.stream_id())
    assert len({*found}) == 4
    assert device.stream_id() == found[-1]
    cupy.cuda.get_current_stream = lambda: SimpleNamespace(ptr=7)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(device.stream_id).result() == device.stream_id()


def test_a_table_is_copied_once_by_a_stream_that_is_not_captured(stream, cupy):
    copies = []

    def asarray(table):
        assert stream.current[-1] is not stream.null
        copies.append(table)
        return table.copy()

    cupy.asarray, table, device = asarray, np.arange(5), CudaDevice()
    cupy.cuda.using_allocator = lambda allocator: ThreadPoolExecutor(1)
    first = device.constant(table)
    assert device.constant(table) is first
    assert (len(copies), stream.calls) == (1, ["wait"])
