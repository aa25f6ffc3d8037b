"""A device of the CUDA engine on the host: its kernels' text, an exact product.

It refuses what cuBLAS or a launch would refuse, or do slowly.
"""

import ctypes
import weakref
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from tests.support.cases import NIGHTLY
from tests.support.cuda.host import check_arguments
from tests.support.cuda.launches import LAUNCH
from twom_dist.errors import MemoryLimitError
from twom_dist.kernels.cuda import driver, scripts, tuning
from twom_dist.kernels.cuda import engine as engine_module
from twom_dist.kernels.cuda.engine import CudaEngine
from twom_dist.kernels.cuda.hopper import TENSOR_MAP
from twom_dist.kernels.cuda.launch import part_offsets
from twom_dist.kernels.cuda.packing import packing_of
from twom_dist.kernels.cuda.scripts import Recorder
from twom_dist.kernels.cuda.sources import DYNAMIC_FAMILIES, TILE_FAMILY

POISON = 0xA5
# Bytes before and behind an allocation that nobody may write to.
_GUARD = 256
_WAYS = 80, 90, 100, 110
_IDS = [f"sm_{t}" for t in _WAYS]
# For tests of what differs: products by cuBLAS on 10.0, and by each of our kernels.
EVERY_WAY = pytest.mark.parametrize("engine", _WAYS, ids=_IDS, indirect=True)
# For those to which our kernels are one: that of 80 takes longer on the host.
FUSED_OR_NOT = pytest.mark.parametrize(
    "engine",
    [pytest.param(x, marks=[NIGHTLY] * (x in (80, 110))) for x in _WAYS],
    ids=_IDS,
    indirect=True,
)


@contextmanager
def small_pieces():
    """Cut updates into tiles of 16, stacks in two, and launches by waves."""
    waves = dict.fromkeys(tuning.LAUNCH_OPERATIONS, 1.0)
    with (
        mock.patch.object(tuning, "SMALLEST_UPDATE_TILE", 16),
        mock.patch.object(tuning, "LAUNCH_OPERATIONS", waves),
        mock.patch.object(engine_module, "LARGEST_STACK", 2),
    ):
        yield


def _allocation(x):
    while getattr(x, "base", None) is not None:
        x = x.base
    return x


def _start(whole):
    """Find where an array begins in its memory: at a multiple of 512 bytes."""
    return _GUARD + -(whole.ctypes.data + _GUARD) % 512


class CheckedRecorder(Recorder):
    """Checks what a script's launches are given, before it is only an address."""

    def launch(self, module, name, grid, block, args, shared=0):
        check_arguments(module, name, args)
        super().launch(module, name, grid, block, args, shared)


scripts.Recorder = CheckedRecorder


class HostDevice:
    """NumPy arrays in the place of device memory.

    It lists what is launched, which of that scripts repeat, and the bytes that are
    allocated, of which none may be more than `room`; `guarded` are alive. When asked,
    it says that `free` of `total` bytes are free.
    """

    def __init__(self, kernels, capability=90):
        self.kernels, self._capability = kernels, capability
        self.launched, self.repeated, self.allocated = [], [], []
        self.guarded = {}
        self._kernels, self._launcher = [], LAUNCH(self._launch_by_pointers)
        self.total, self.room, self.free, self.asked = 8 << 30, 1 << 62, None, 0
        # Shared memory of the capability (CUDA C++ Programming Guide).
        kilobytes = {75: 64, 80: 163, 86: 99, 89: 99, 120: 99}
        self.shared = kilobytes.get(capability, 227) << 10

    def empty(self, shape, dtype):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size > self.room:
            raise MemoryLimitError("full", "", "device-memory")
        self.allocated.append(size)
        whole = np.full(size + 1024, POISON, np.uint8)
        self.guarded[id(whole)] = weakref.ref(whole), size
        weakref.finalize(whole, self.guarded.pop, id(whole))
        start = _start(whole)
        return whole[start : start + size].view(dtype).reshape(shape)

    def check_guards(self):
        """See that a launch wrote to nothing beside arrays that are alive."""
        for whole, size in [*self.guarded.values()]:
            if (whole := whole()) is not None:
                start = _start(whole)
                around = whole[start - _GUARD : start], whole[start + size :]
                beside = f"{self.launched[-1]}: beside"
                assert all((x == POISON).all() for x in around), beside

    def full(self, shape, dtype, byte=0):
        self.launched.append("memset")
        out = self.empty(shape, dtype)
        np.asarray(out).reshape(-1).view(np.uint8)[...] = byte
        return out

    def slab(self, size, fill=None):
        given = (size,), np.uint8
        whole = self.empty(*given) if fill is None else self.full(*given, fill)
        return SimpleNamespace(ptr=whole.ctypes.data, whole=whole)

    def allocate(self, parts, fill=None):
        return self.split(self.slab(part_offsets(parts)[1], fill), parts)

    def split(self, slab, parts):
        """View the arrays of one allocation; what lies between belongs to none."""
        whole = slab.whole
        sizes = (int(np.prod(shape)) * np.dtype(t).itemsize for shape, t in parts)
        return [
            whole[start : start + size].view(dtype).reshape(shape)
            for (shape, dtype), start, size in zip(
                parts, part_offsets(parts)[0], sizes, strict=True
            )
        ]

    def send(self, x):
        self.launched.append("send")
        out = self.empty(x.shape, x.dtype)
        np.asarray(out)[...] = x
        return out

    def fetch(self, arrays, meanwhile=None):
        self.launched.append("fetch")
        assert len({id(_allocation(x)) for x in arrays}) == 1
        assert all(x.flags.c_contiguous for x in arrays)
        found = [np.array(x) for x in arrays]
        if meanwhile is not None:
            meanwhile()
        return found

    def constant(self, table):
        return table

    def launch(self, module, name, grid, block, args, shared=0):
        assert min(*grid, *block) > 0, f"{name}: empty launch {grid} x {block}"
        for t in args[name == "copy_samples" :]:  # of any layout
            if isinstance(t, np.ndarray) and t.dtype == np.int8:
                # Residues and planes: rows are read by words.
                assert t.ndim < 3 or t.ctypes.data % 16 == t.strides[1] % 16 == 0
        self.launched.append(name)
        assert shared == 0 or module.family in DYNAMIC_FAMILIES
        assert shared <= self.shared or module.family != "scale_and_encode"
        self.kernels.launch(module, name, grid, block, args, shared)
        self.check_guards()

    def function(self, module, name):
        """Number a kernel."""
        if (module, name) not in self._kernels:
            self._kernels.append((module, name))
        return 1 + self._kernels.index((module, name))

    def driver(self):
        """Give an old one on 10.0 and 10.3, where cuBLAS multiplies therefore."""
        return 13020 if self._capability in (100, 103) else 13030

    def overlaps(self):
        return self._capability >= 90

    def run(self, program, bases):
        """Launch a program by a function of the host, as the driver does."""
        self._failure, self._before = None, None
        launch = ctypes.cast(self._launcher, ctypes.c_void_p).value
        driver.run(launch, 0, program, bases)
        if self._failure is not None:
            raise self._failure

    def _launch_by_pointers(self, config, number, pointers, extra):
        """Stand for cuLaunchKernelEx, which copies each parameter."""
        try:
            own = config.contents
            # What comes before the first one is the user's, and may not wait.
            other = self._before not in (None, self._kernels[number - 1])
            self._before = module, name = self._kernels[number - 1]
            # Nor can those wait that are written in cuTile.
            other = other and module.family != TILE_FAMILY
            assert own.overlaps() == (self.overlaps() and other)
            packing = packing_of(module.family, name)
            count = len(packing.offsets)
            found = (ctypes.c_void_p * count).from_address(pointers)
            start = found[0] - packing.offsets[0]
            assert [x - start for x in found] == [*packing.offsets]
            assert (own.stream, extra) == (None, None)
            data = ctypes.string_at(start, packing.packer.size)
            given = (*own.grid,), (*own.block,), data, packing.offsets, own.shared
            self.launch_packed(module, name, *given)
        except Exception as error:
            self._failure = error
            return 1
        return 0

    def launch_packed(self, module, name, grid, block, data, offsets, shared):
        self.launched.append(name)
        self.repeated.append(name)
        assert shared == 0 or module.family in DYNAMIC_FAMILIES
        assert shared <= self.shared or module.family != "scale_and_encode"
        own = module, name, grid, block, data, offsets, shared
        self.kernels.launch_packed(*own)
        self.check_guards()

    def multiply(self, x, y, sums):
        """Check what tensor cores want, and multiply exactly: in doubles.

        int32 or float32 hold every partial sum, in any order.
        """
        self.launched.append(f"multiply_{x.dtype}")
        kinds = (np.int8, np.int32), (np.float16, np.float32)
        assert (x.dtype, sums.dtype) in kinds
        assert x.dtype == y.dtype
        if x.dtype == np.int8:
            assert 0 < x.shape[2] <= 1 << 16  # |sum| <= 2^16 2^14
        (batch, m, n), k = sums.shape, x.shape[2]
        assert (x.shape, y.shape) == ((batch, m, k), (batch, n, k))
        for t in (x, y, sums):
            assert t.strides[2] == t.itemsize, "rows are contiguous"
            assert t.ctypes.data % 16 == t.strides[1] % 16 == 0
            assert batch == 1 or t.strides[0] > 0
        assert m % 16 == n % 16 == k % 16 == 0
        for a, b, out in zip(*map(np.asarray, (x, y, sums)), strict=True):
            left, right = a.astype(np.float64), b.astype(np.float64).T
            if x.dtype == np.float16:
                assert (abs(left) @ abs(right)).max() < 1 << 24
                assert (left % 1 == 0).all()
                assert (right % 1 == 0).all()
            out[...] = left @ right

    def addresses(self, arrays, device):
        own = [x for x in arrays if x is not None]
        assert all(x.ctypes.data % x.itemsize == 0 for x in own)
        return [0 if x is None else x.ctypes.data for x in arrays]

    def map_planes(self, address, shape):
        """Check what the driver would refuse, and write down what host_ring.h reads."""
        count, rows, k = shape
        assert rows % 64 == address % 128 == k % 128 == 0
        return self._map(address, count * rows, k, k)

    def map_rows(self, address, rows, nbytes, distance):
        assert address % 16 == distance % 16 == 0
        assert nbytes <= distance
        return self._map(address, rows, nbytes, distance)

    def _map(self, *words):
        out = np.zeros(1, TENSOR_MAP)
        out["word"][0, :4] = words
        return out.tobytes()

    def total_bytes(self):
        return self.total

    def free_bytes(self):
        self.asked += 1
        return self.free

    def shared_bytes(self):
        return self.shared

    def multiprocessors(self):
        """Give fewer than large products have blocks."""
        return 6

    def number(self):
        return 0

    def capability(self, number=0):
        return self._capability

    def name(self):
        return f"Host {self._capability}"

    def element(self):
        """Give what is tuned: products are exact here."""
        return tuning.tuning_for(self._capability).element

    def stream(self):
        return nullcontext()

    def stream_id(self):
        return 0

    def record(self):
        """Nothing has to be waited for."""

    def wait_for(self, event):
        """Everything has happened."""

    def synchronize(self):
        self.launched.append("synchronize")


def host_engine(kernels, capability=90):
    engine = CudaEngine(HostDevice(kernels, capability))
    engine.family = "numpy"
    return engine
