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


def address(x):
    return x.__array_interface__["data"][0]


def test_memory_comes_back_when_the_last_view_dies():
    x = buffers.empty((SIZE,), np.uint8)
    where, view = address(x), x.reshape(3, -1)[1:, ::2].view(np.int8)
    assert where % 64 == 0
    del x
    assert address(buffers.empty((SIZE,), np.uint8)) != where
    del view
    found = [buffers.empty((SIZE // 16, 2), np.float64) for _ in range(2)]
    assert where in map(address, found)
    again = found[0]
    assert again.shape == (SIZE // 16, 2)
    assert again.flags.c_contiguous
    assert again.flags.writeable


def test_two_arrays_never_share_memory():
    kept = [buffers.empty((SIZE,), np.uint8) for _ in range(3)]
    for value, x in enumerate(kept):
        x[...] = value
    assert all((x == value).all() for value, x in enumerate(kept))


def test_no_more_than_the_limit_is_kept():
    with dask.config.set({"twom-dist.reuse-bytes": 2 * SIZE + SIZE // 2}):
        kept = [buffers.empty((SIZE,), np.uint8) for _ in range(5)]
        del kept
        assert buffers.kept.nbytes == 2 * SIZE


def test_memory_of_other_sizes_makes_room():
    """Least recently used first, or one size would block the reuse of any other."""
    with dask.config.set({"twom-dist.reuse-bytes": 4 * SIZE}):
        blocks = [buffers.empty((SIZE,), np.uint8) for _ in range(4)]
        where = [address(x) for x in blocks]
        while blocks:
            del blocks[0]
        buffers.empty((2 * SIZE,), np.uint8)
        assert buffers.kept.nbytes == 4 * SIZE
        larger = buffers.empty((2 * SIZE,), np.uint8)
        assert buffers.kept.nbytes == 2 * SIZE  # it came from there
        rest = [buffers.empty((SIZE,), np.uint8) for _ in range(2)]
        assert [address(x) for x in rest] == where[:1:-1]
        del larger, rest


def test_a_lower_limit_lets_go_of_memory():
    buffers.empty((SIZE,), np.uint8)
    assert buffers.kept.nbytes == SIZE
    with dask.config.set({"twom-dist.reuse-bytes": 2 * SIZE}):
        other = buffers.empty((2 * SIZE,), np.uint8)
    del other
    assert buffers.kept.nbytes == 2 * SIZE


def test_the_next_product_finds_all_memory():
    A = td.testing.random_matrix(300, 300)
    found = []
    for _ in range(3):
        td.herk(A, num_moduli=16)
        td.gemm(A, A, num_moduli=16)
        gc.collect()
        assert buffers.kept.nbytes
        found.append({address(x) for x in buffers.kept._memory.values()})
    assert found[0] == found[1] == found[2] != set()


def test_a_task_of_dask_keeps_less():
    with threads.run_task():
        buffers.empty((SIZE,), np.uint8)
        assert buffers.kept._limit == buffers.TASK_REUSE_BYTES
    buffers.empty((SIZE,), np.uint8)
    assert buffers.kept._limit == buffers.REUSE_BYTES


def test_nothing_is_kept_where_nothing_may_be():
    with dask.config.set({"twom-dist.reuse-bytes": 0}):
        buffers.empty((SIZE,), np.uint8)
    assert not buffers.kept.nbytes


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


def test_what_is_in_use_counts():
    with dask.config.set({"twom-dist.reuse-bytes": 2 * SIZE}):
        used = [buffers.empty((SIZE,), np.uint8)]
        buffers.empty((2 * SIZE,), np.uint8)
        assert buffers.kept.nbytes == 0
        buffers.empty((SIZE,), np.uint8)
        assert buffers.kept.nbytes == SIZE
        del used
        assert buffers.kept.nbytes == 2 * SIZE


def test_no_code_that_a_signal_may_end_runs_when_memory_comes_back():
    ran = []
    x = buffers.empty((SIZE,), np.uint8)
    sys.setprofile(lambda frame, event, _: ran.append(event))
    del x
    sys.setprofile(None)
    assert "call" not in ran
    assert buffers.kept.nbytes == SIZE


def test_an_array_made_of_a_view_keeps_the_memory():
    x = buffers.empty((SIZE,), np.uint8)
    where, view = address(x), np.asarray(x[64:]).reshape(-1, 64).T
    assert type(x) is type(view) is np.ndarray
    del x
    gc.collect()
    assert not buffers.kept.nbytes
    del view
    assert address(buffers.empty((SIZE,), np.uint8)) == where
