"""Stacks of matrices on a device: the bits of the CPU's engine for each alone."""

import numpy as np
import pytest

import twom_dist as td
from tests.gpu.ways import WAYS, take
from tests.support.stacks import assert_each_is_as_alone, compute, random_stack
from tests.support.strategies import DTYPES
from twom_dist.errors import EngineUnavailableError
from twom_dist.kernels import get_engine

pytestmark = pytest.mark.gpu

try:
    get_engine("cuda")
except EngineUnavailableError as error:
    # No device, driver or CuPy: the engine's own sentence is the reason.
    pytest.skip(str(error), allow_module_level=True)


@pytest.mark.parametrize("shape", [(3, 5, 7, 2), (300, 96, 64, 512), (2, 300, 270, 40)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", WAYS)
def test_products_and_updates(way, dtype, shape, monkeypatch):
    cp = pytest.importorskip("cupy")
    capability = get_engine("cuda").device.capability()
    take(way, capability, monkeypatch)
    count, m, n, k = shape
    a = random_stack((count,), m, k, dtype, 1)
    b = random_stack((count,), k, n, dtype, 2)
    a[1, 2, 1], b[-1, 0, 0] = np.inf, np.nan
    options = {"num_moduli": 4}
    found = compute("gemm", cp.asarray(a), cp.asarray(b), **options)
    assert_each_is_as_alone(found.get(), "gemm", a, b, **options)
    for uplo in ("full", "upper"):
        found = compute("herk", cp.asarray(a), uplo=uplo, **options)
        assert_each_is_as_alone(found.get(), "herk", a, uplo=uplo, **options)


@pytest.mark.parametrize("shape", [(3, 5, 7, 2), (40, 96, 64, 512)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_matrix_takes_its_own_moduli(dtype, shape):
    cp = pytest.importorskip("cupy")
    count, m, n, k = shape
    a = random_stack((count,), m, k, dtype, 1)
    b = random_stack((count,), k, n, dtype, 2)
    a[1] *= np.float32(2) ** np.random.default_rng(0).integers(-5, 6, (m, k))
    a[2, 0, 0] = np.nan
    for accuracy in ("componentwise", "normwise"):
        options = {"accuracy": accuracy}
        found = td.gemm(cp.asarray(a), cp.asarray(b), **options)
        assert_each_is_as_alone(found.get(), "gemm", a, b, **options)
        found = td.syrk(cp.asarray(a), **options)
        assert_each_is_as_alone(found.get(), "syrk", a, **options)
