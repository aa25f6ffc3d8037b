"""Exact products of integers by the CUDA engine on the host: the CPU engine's bits."""

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cuda.host_device import BOTH
from tests.support.cuda.on_cpu import on_cpu
from tests.support.integers import multiply, random_integers


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint16"])
def test_tiles_are_narrower_than_results(cuda, dtype, pairs):
    a = random_integers((19, 23), dtype, pairs, 1)
    b = random_integers((23, 17), dtype, pairs, 2)
    options = {"accuracy": "exact", "pairs": pairs}
    assert same_bits(td.gemm(a, b, **options), on_cpu(td.gemm, a, b, **options))
    stack = np.stack([a, a[::-1]])
    assert same_bits(td.gemm(stack, b, **options), on_cpu(td.gemm, stack, b, **options))
    for routine in (td.herk, td.syrk) if pairs else (td.syrk,):
        assert same_bits(routine(a, **options), on_cpu(routine, a, **options))


def test_dask(cuda):
    a = random_integers((9, 8), "int16", True)
    x = da.from_array(a, chunks=(4, 5, 2))
    with dask.config.set(scheduler="sync"):
        assert same_bits(td.herk(x, pairs=True).compute(), td.herk(a, pairs=True))


@BOTH
def test_results_of_64_bits(cuda):
    a = random_integers((3, 4), "int64", True, 1)
    b = random_integers((4, 2), "int64", True, 2)
    found = td.gaussian_matmul(a, b, pairs=True, dtype=object)
    assert (found == multiply(a, b, True)).all()
