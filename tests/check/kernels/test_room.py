"""Memory of a device that others use as well: what is taken of it, and given up."""

import gc
import weakref
from types import SimpleNamespace

import dask
import numpy as np
import pytest

from tests.support.expect import raises
from tests.support.nvml import with_modules
from twom_dist.errors import MemoryLimitError
from twom_dist.kernels import room
from twom_dist.kernels.cuda import workspace
from twom_dist.moduli import residue_system
from twom_dist.tiles.cache import encoded_tiles


class Pool:
    """A pool of CuPy's, which holds 400 bytes that others gave back."""

    def __init__(self, below=None):
        self.held = 400
        self.free_bytes, self.get_limit = lambda: self.held, lambda: 0

    def malloc(self, size):
        return SimpleNamespace(ptr=0, device_id=0)

    def free_all_blocks(self):
        self.held = 0


def test_a_full_device_gives_up_what_can_be_made_again():
    """Encoded tiles, and what the pool holds; memory of a Product stays for its graphs.

    What a call returned may outlive the product.
    """
    pool = Pool()

    def empty(shape, dtype):
        found = np.empty(shape, dtype)
        if found.nbytes > 1000 - pool.held - encoded_tiles.nbytes:
            raise MemoryError
        return found

    cuda = SimpleNamespace(
        MemoryPool=Pool,
        runtime=SimpleNamespace(memGetInfo=lambda: (1000, 2000)),
        get_allocator=lambda: pool.malloc,
        UnownedMemory=lambda pointer, size, owner, device: owner,
        MemoryPointer=lambda memory, offset: memory,
    )
    with with_modules(cupy={"cuda": cuda, "empty": empty}):
        import cupy

        block, own, tile = np.zeros(3), room.OwnMemory(), SimpleNamespace(nbytes=10)
        encoded_tiles.get(block, "left", lambda: tile, 1 << 20)
        assert room.empty(cupy, (100,), np.float64).nbytes == 800
        assert (len(encoded_tiles), pool.held, own._pool.held) == (0, 0, 400)
        with raises(MemoryLimitError, "device-memory"):
            room.empty(cupy, (2000,), np.int8)
        kept, memory = weakref.ref(own._pool), own.malloc(8)
        del own
        gc.collect()
        assert kept() is not None
        assert memory
    with pytest.raises(MemoryError):
        room.empty(np, (1 << 60,), np.int8)


def test_a_workspace_is_of_what_is_free_and_tiles_fit_it():
    """With a quarter for encoded tiles that wait for reuse."""
    for setting, needed, free, expected in (
        (None, 100, 0, 1600),  # so little that it does not ask
        (None, 101, 4000, 1600),
        (None, 101, 1000, 800),
        (None, 5000, 10, 100),
        (None, 5000, None, 1600),
        (700, 5000, 10, 700),
    ):
        given = {"total_bytes": lambda: 3200, "free_bytes": lambda free=free: free}
        with dask.config.set({"twom-dist.workspace-bytes": setting}):
            found = workspace.available_bytes(SimpleNamespace(**given), needed)
        assert found == expected, (setting, needed, free)
    system, shape = residue_system("2m", 16), (4096, 4096, 4096)
    for limit in range(1 << 27, 1 << 32, 1 << 27):
        tiles = workspace.fit_tiles(system, shape, limit, 0)
        taken = tiles.mb, tiles.nb, tiles.kb
        used = workspace.working_bytes(system, taken, 0)
        assert used + (taken != shape) * tiles.cache_bytes <= limit
