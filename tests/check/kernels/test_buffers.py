"""Memory that is used again: only when nobody holds it, and within its limit."""

import gc
import sys
import tracemalloc

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.strategies import random_matrix
from twom_dist.kernels.cpu import buffers, threads

SIZE = 3 << 20


@pytest.fixture(autouse=True)
def no_memory_kept():
    gc.collect()  # what earlier tests left in cycles would come back at any time
    buffers.kept.limit(0)
    yield
    buffers.kept.limit(0)


def take(size=SIZE):
    return buffers.empty((size,), np.uint8)


def address(x):
    return x.__array_interface__["data"][0]


def keeping(size):
    return dask.config.set({"twom-dist.reuse-bytes": size})


def test_memory_comes_back_when_the_last_view_dies():
    x = take()
    where, view = address(x), x.reshape(3, -1)[1:, ::2].view(np.int8)
    assert where % 64 == 0
    del x
    assert address(take()) != where
    view = np.asarray(view).reshape(2, -1).T
    assert type(view) is np.ndarray
    del view
    found = [buffers.empty((SIZE // 16, 2), np.float64) for _ in range(2)]
    assert where in map(address, found)
    assert found[0].flags.c_contiguous
    assert found[0].flags.writeable


def test_two_arrays_never_share_memory():
    kept = [take() for _ in range(3)]
    for value, x in enumerate(kept):
        x[...] = value
    assert all((x == value).all() for value, x in enumerate(kept))


def test_the_next_product_finds_all_memory():
    A, found = td.testing.random_matrix(300, 300), []
    for _ in range(3):
        td.herk(A, num_moduli=16)
        td.gemm(A, A, num_moduli=16)
        gc.collect()
        assert buffers.kept.nbytes
        found.append({address(x) for x in buffers.kept._memory.values()})
    assert found[0] == found[1] == found[2] != set()


def test_memory_of_other_sizes_makes_room():
    """Least recently used first, or one size would block the reuse of any other."""
    with keeping(4 * SIZE):
        blocks = [take() for _ in range(4)]
        where = [address(x) for x in blocks]
        while blocks:
            del blocks[0]
        take(2 * SIZE)
        assert buffers.kept.nbytes == 4 * SIZE
        larger = take(2 * SIZE)
        assert buffers.kept.nbytes == 2 * SIZE  # it came from there
        rest = [take() for _ in range(2)]
        assert [address(x) for x in rest] == where[:1:-1]
        del larger, rest


def test_no_more_than_the_limit_is_kept():
    """What is in use counts."""
    with keeping(2 * SIZE + SIZE // 2):
        kept = [take() for _ in range(5)]
        del kept
        assert buffers.kept.nbytes == 2 * SIZE
    with keeping(2 * SIZE):
        used = [take()]
        take(2 * SIZE)
        assert buffers.kept.nbytes == 0
        take()
        assert buffers.kept.nbytes == SIZE
        del used
        assert buffers.kept.nbytes == 2 * SIZE
    with keeping(0):
        take()
    assert not buffers.kept.nbytes
    with threads.run_task():
        take()
        assert buffers.kept._limit == buffers.TASK_REUSE_BYTES
    take()
    assert buffers.kept._limit == buffers.REUSE_BYTES


def test_planes_of_a_product_at_once_are_gone_before_its_result():
    n, count = 256, 16
    A = random_matrix(n, n, seed=1)
    with dask.config.set({"twom-dist.reuse-bytes": 0, "twom-dist.threads": 1}):
        td.gemm(A, A, num_moduli=count)
        tracemalloc.start()
        C = td.gemm(A, A, num_moduli=count)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    planes, residues = 2 * 2 * count * n * n, 2 * count * n * n
    assert planes + residues < peak < planes + residues + C.nbytes


def test_no_code_that_a_signal_may_end_runs_when_memory_comes_back():
    ran, x = [], take()
    sys.setprofile(lambda frame, event, _: ran.append(event))
    del x
    sys.setprofile(None)
    assert "call" not in ran
    assert buffers.kept.nbytes == SIZE
