"""Exact products of integers by the CUDA engine on the host: the CPU engine's bits."""

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cuda.cupy_arrays import DeviceArray, use_device
from tests.support.cuda.host_device import FUSED_OR_NOT
from tests.support.cuda.on_cpu import on_cpu
from tests.support.integers import multiply, random_integers
from twom_dist.problem import matrices


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint16"])
def test_tiles_are_narrower_than_results(cuda, dtype, pairs):
    a = random_integers((19, 23), dtype, pairs, 1)
    b = random_integers((23, 17), dtype, pairs, 2)
    calls = [(td.integers.gemm, a, b), (td.integers.gemm, np.stack([a, a[::-1]]), b)]
    calls += [(td.integers.syrk, a)] + [(td.integers.herk, a)] * pairs
    for routine, *given in calls:
        expected = on_cpu(routine, *given, pairs=pairs)
        assert same_bits(routine(*given, pairs=pairs), expected)


def test_complex_numbers_that_are_integers(cuda):
    pairs = random_integers((9, 8), "int16", True)
    expected = td.integers.herk(pairs, pairs=True)
    words = td.integers.matmul(pairs, pairs.swapaxes(0, 1), pairs=True)
    for dtype in ("complex64", "complex128"):
        a = (pairs @ np.array([1, 1j])).astype(dtype)
        assert same_bits(td.integers.herk(a), expected)
        assert (td.integers.matmul(a, a.T) == words).all()
        x = da.from_array(a, chunks=(4, 5))
        with dask.config.set(scheduler="sync"):
            assert same_bits(td.integers.herk(x).compute(), expected)


def test_dask(cuda):
    a = random_integers((9, 8), "int16", True)
    x = da.from_array(a, chunks=(4, 5, 2))
    with dask.config.set(scheduler="sync"):
        assert same_bits(
            td.integers.herk(x, pairs=True).compute(), td.integers.herk(a, pairs=True)
        )


@FUSED_OR_NOT
def test_results_of_64_bits(cuda):
    a = random_integers((3, 4), "int64", True, 1)
    b = random_integers((4, 2), "int64", True, 2)
    found = td.integers.matmul(a, b, pairs=True, dtype=object)
    assert (found == multiply(a, b, True)).all()


def test_named_pairs_of_a_device(host_kernels, monkeypatch):
    """DataArrays of CuPy's arrays, with results in either precision."""
    xr = pytest.importorskip("xarray")
    device = use_device(host_kernels, 80, monkeypatch)
    monkeypatch.setattr(matrices, "_check_device", lambda arrays: None)
    a = random_integers((2, 5, 3 * 4), "int8", True)
    x = xr.DataArray(
        device.adopt(a.reshape(2, 5, 3, 4, 2)), dims=("x", "y", "pol", "t", "parts")
    )
    options = {"dim": ["t", "pol"], "rows": "y", "pairs": "parts", "alpha": 1 / 3}
    exact = on_cpu(td.integers.herk, a, pairs=True) / 3
    for dtype in ("complex64", "complex128"):
        found = td.xarray.herk(x, dtype=dtype, **options)
        assert type(found.data) is DeviceArray
        assert same_bits(found.data.view(np.ndarray), exact.astype(dtype))
