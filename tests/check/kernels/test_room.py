"""Memory of a device that others use as well: what is taken of it, and given up."""

import gc
import sys
import weakref
from contextlib import contextmanager, suppress
from types import ModuleType, SimpleNamespace

import dask
import distributed
import numpy as np
import pytest

import twom_dist as td
from tests.support.expect import raises
from twom_dist.api import prepared as product_module
from twom_dist.errors import MemoryLimitError, PlanError
from twom_dist.kernels import room
from twom_dist.kernels.cuda import workspace
from twom_dist.moduli import residue_system
from twom_dist.tiles.cache import encoded_tiles


class Pool:
    """A pool of CuPy on a device with 1000 bytes, all of them free."""

    def __init__(self, allocator=None):
        self.allocator = allocator
        self.held = self.used = self.limit = 0
        self.taken, self.asked = [], []

    def malloc(self, size):
        """Hand out what was given back, or a block of the allocator below."""
        self.asked.append(size)
        if self.held < size:
            self.taken.append(self.allocator(size - self.held))
            self.held = size
        self.held -= size
        block = Block()
        weakref.finalize(block, Pool.free, weakref.proxy(self), size)
        return block

    def free(self, size):
        with suppress(ReferenceError):  # as CuPy's, which a block does not keep
            self.held += size

    def free_all_blocks(self):
        self.held = 0

    def free_bytes(self):
        return self.held

    def used_bytes(self):
        return self.used

    def get_limit(self):
        return self.limit


class Block:
    """What an allocator hands out."""

    ptr, device_id = 4096, 0


class OnDevice(np.ndarray):
    """An array that counts as one of CuPy's."""

    __module__ = "cupy"


@pytest.fixture
def pool():
    return Pool()


@pytest.fixture
def cupy(monkeypatch, pool):
    """Stand in for CuPy; `room_for` bytes can be allocated at once."""
    module = ModuleType("cupy")

    def empty(shape, dtype):
        found = np.empty(shape, dtype)
        if found.nbytes > module.room_for() - pool.held:
            raise MemoryError
        return found.view(OnDevice)

    module.empty, module.room_for = empty, lambda: 1000
    runtime = SimpleNamespace(memGetInfo=lambda: (1000, 2000))
    allocators = [pool.malloc]

    @contextmanager
    def using_allocator(allocator):
        allocators.append(allocator)
        yield
        allocators.pop()

    module.cuda = SimpleNamespace(
        runtime=runtime,
        UnownedMemory=lambda ptr, size, owner, device: owner,
        MemoryPointer=lambda memory, offset: memory,
        MemoryPool=Pool,
        get_allocator=lambda: allocators[-1],
        using_allocator=using_allocator,
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_memory_of_a_product_is_not_given_up(cupy, pool):
    own = room.OwnMemory()
    pool.held = 400
    kept = own._pool
    kept.held = 300
    with own.use():
        assert room.empty(cupy, (100,), np.float64).nbytes == 800
    assert (pool.held, kept.held) == (0, 300)


def test_encoded_tiles_are_given_up_for_an_array(cupy, monkeypatch):
    block = np.zeros(3)
    tile = SimpleNamespace(nbytes=10)
    encoded_tiles.get(block, "left", lambda: tile, 1 << 20)
    cupy.room_for = lambda: 500 if len(encoded_tiles) else 1000
    assert room.empty(cupy, (100,), np.float64).nbytes == 800
    assert len(encoded_tiles) == encoded_tiles.nbytes == 0


def test_a_full_device_says_so_and_a_full_host_raises_its_own_error(cupy):
    with raises(MemoryLimitError, "device-memory"):
        room.empty(cupy, (2000,), np.int8)
    with pytest.raises(MemoryError):
        room.empty(np, (1 << 60,), np.int8)


def test_what_is_free_is_the_devices_and_the_pools_within_its_limit(cupy, pool):
    pool.held = 300
    assert room.free_bytes(cupy) == 1300
    pool.used, pool.limit = 200, 800
    assert room.free_bytes(cupy) == 600
    cupy.cuda.get_allocator = lambda: print  # of others: RMM, PyTorch
    assert room.free_bytes(cupy) is None


@pytest.mark.parametrize(
    ("setting", "needed", "free", "expected"),
    [
        (None, 100, 0, 1600),  # so little that it does not ask
        (None, 101, 4000, 1600),
        (None, 101, 1000, 800),
        (None, 5000, 1000, 800),
        (None, 5000, 10, 100),
        (None, 5000, None, 1600),
        (700, 5000, 10, 700),
    ],
)
def test_a_workspace_is_of_what_is_free(setting, needed, free, expected):
    asked = []

    def free_bytes():
        asked.append(free)
        return free

    device = SimpleNamespace(total_bytes=lambda: 3200, free_bytes=free_bytes)
    with dask.config.set({"twom-dist.workspace-bytes": setting}):
        assert workspace.available_bytes(device, needed) == expected
    assert bool(asked) == (setting is None and needed > 100)


def test_threads_of_a_worker_share_what_nobody_can_ask_for(monkeypatch):
    """RMM and PyTorch do not tell what their pools still hold."""
    device = SimpleNamespace(total_bytes=lambda: 3200, free_bytes=lambda: None)
    worker = SimpleNamespace(state=SimpleNamespace(nthreads=4))
    monkeypatch.setattr(distributed, "get_worker", lambda: worker)
    assert workspace.available_bytes(device, 5000) == 400
    worker.state.nthreads = 100
    assert workspace.available_bytes(device, 5000) == 100  # what needs no question
    with dask.config.set({"twom-dist.workspace-bytes": 700}):
        assert workspace.available_bytes(device, 5000) == 700
    device.free_bytes = lambda: 1000
    assert workspace.available_bytes(device, 5000) == 800


class Attempts:
    """A product that needs `least` of 1600 bytes, and takes what it may."""

    def __init__(self, least, code="device-memory"):
        self.full = MemoryLimitError("full", "", code)
        self.least, self.taken, self.arrays = least, [], []

    def __call__(self):
        device = SimpleNamespace(total_bytes=lambda: 3200, free_bytes=lambda: None)
        self.taken.append(workspace.available_bytes(device, 1000))
        # Of an attempt nothing is left when the next one begins.
        assert all(array() is None for array in self.arrays)
        array = np.zeros(3)
        self.arrays.append(weakref.ref(array))
        if min(self.taken[-1], 1000) > self.least:
            raise self.full
        return array


class OutOfMemoryError(MemoryError):
    """What CuPy raises of its own temporaries."""

    __module__ = "cupy.cuda.memory"


@pytest.mark.parametrize(
    ("least", "code", "taken"),
    [
        (500, None, [1600, 500]),
        (499, "device-memory", [1600, 500]),
        (0, "workspace", [1600]),
    ],
)
def test_a_full_device_is_tried_once_more_with_half_of_what_was_needed(
    least, code, taken
):
    product = Attempts(least, code or "device-memory")
    if code is None:
        assert room.try_with_less(product).shape == (3,)
    else:
        error = PlanError if code == "workspace" else MemoryLimitError
        with raises(error, code):
            room.try_with_less(product)
    assert product.taken == taken
    assert room.workspace_share() == 1


def test_temporaries_of_cupy_that_do_not_fit_are_told_alike():
    given_up, product = [], Attempts(500)
    product.full = OutOfMemoryError("allocating 1000 bytes")
    room.on_full.append(lambda: given_up.append(product.taken[:]))
    try:
        assert room.try_with_less(product).shape == (3,)
        assert given_up == [[1600]]
        product.least = 0
        with raises(MemoryLimitError, "device-memory") as caught:
            room.try_with_less(product)
    finally:
        room.on_full.pop()
    assert "allocating 1000 bytes" in caught.value.problem
    on_the_host = Attempts(0)
    on_the_host.full = MemoryError()
    with pytest.raises(MemoryError):
        room.try_with_less(on_the_host)
    assert on_the_host.taken == [1600]


def test_a_product_keeps_memory_of_the_current_allocator(cupy, pool, monkeypatch):
    pool.allocator, free, result = lambda size: Block(), [], []

    def compute(terms, *arrays):
        blocks = [cupy.cuda.get_allocator()(size) for size in (300, 200)]
        free.append(room.free_bytes(cupy))
        result.append(blocks[0])

    monkeypatch.setattr(product_module, "family_of", lambda x: "cupy")
    monkeypatch.setattr(product_module, "compute_arrays", compute)
    A, product = np.eye(2), td.Product((2, 2), (2, 2), "float64")
    product(A, A)
    assert pool.asked == [300, 200]
    result.clear()
    pool.held = 700
    product(A, A)  # as while a stream is captured
    assert pool.asked == [300, 200]
    assert free == [1000, 1000]
    assert room.free_bytes(cupy) == 1700
    # What a call returned may outlive the product.
    memory = weakref.ref(result[0][1])
    del product
    gc.collect()
    assert memory() is not None


def test_tiles_leave_a_quarter_of_their_memory_to_encoded_ones():
    system, shape = residue_system("2m", 16), (4096, 4096, 4096)
    for limit in range(1 << 27, 1 << 32, 1 << 27):
        tiles = workspace.fit_tiles(system, shape, limit, 0)
        taken = tiles.mb, tiles.nb, tiles.kb
        used = workspace.working_bytes(system, taken, 0)
        assert used + (taken != shape) * tiles.cache_bytes <= limit
