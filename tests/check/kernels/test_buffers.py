"""Memory that products use again: only when nobody holds it, and within its limit."""

import gc
import tracemalloc
from contextlib import contextmanager

import dask
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import same_bits
from tests.support.strategies import random_matrix

A = random_matrix(400, 400, seed=1)


def reusing(nbytes):
    return dask.config.set({"twom-dist.reuse-bytes": nbytes, "twom-dist.threads": 1})


@contextmanager
def tracing():
    """Count memory that is allocated from now on; nothing has been kept."""
    with reusing(0):
        td.gemm(A, A, num_moduli=16)
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


@cases("routine", [td.gemm, td.her2k])
def test_memory_in_use_is_given_to_nobody(routine):
    """Encoded tiles of one size wait for others; results outlive the next products."""
    given, tiles = (A, A[::-1]), dask.config.set({"twom-dist.largest-tile": 256})
    with tiles, reusing(0):
        expected = routine(*given, num_moduli=9)
    with tiles, reusing(64 << 20):
        found = [routine(*given, num_moduli=9) for _ in range(3)]
    assert all(same_bits(x, expected) for x in found)


@pytest.mark.parametrize(
    ("limit", "least"), [(0, 0), (4 << 20, 1 << 20), (8 << 20, 4 << 20)]
)
def test_no_more_is_kept_than_the_setting_says(limit, least):
    with tracing(), reusing(limit):
        for n in (200, 300, 400, 300):
            td.gemm(A[:n], A[:, :n], num_moduli=9)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    assert least <= held <= limit + (1 << 20)


def test_planes_of_a_product_at_once_are_gone_before_its_result():
    n, count = len(A), 16
    with tracing(), reusing(0):
        C = td.gemm(A, A, num_moduli=count)
        _, peak = tracemalloc.get_traced_memory()
    planes, residues = 2 * 2 * count * n * n, 2 * count * n * n
    assert planes + residues < peak < planes + residues + C.nbytes
