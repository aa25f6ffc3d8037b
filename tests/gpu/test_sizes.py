"""Sizes that only a device has time for: the moduli and the bits of the CPU."""

import numpy as np
import pytest

import twom_dist as td
from tests.gpu.ways import WAYS, engine_or_skip, take
from tests.support.expect import same_bits
from tests.support.stacks import assert_each_is_as_alone, random_stack
from tests.support.strategies import DTYPES, random_matrix

pytestmark = pytest.mark.gpu
CUDA = engine_or_skip()
cp = pytest.importorskip("cupy")


@pytest.mark.parametrize("size", [200, 700, 2100])
@pytest.mark.parametrize("phi", [1.5, 4.0])
def test_the_data_take_the_moduli_that_they_take_on_the_cpu(size, phi):
    A, B = (random_matrix(size, size, "complex128", phi, seed) for seed in (1, 2))
    D = np.ldexp(1.0, np.arange(size) % 40)
    for left, right in ((A, B), (A * D, B / D[:, np.newaxis]), (np.triu(A), B)):
        found = td.gemm(cp.asarray(left), cp.asarray(right))
        expected = td.gemm(left, right)
        assert same_bits(cp.asnumpy(found), expected)


@pytest.mark.parametrize("shape", [(3, 5, 7, 2), (100, 96, 64, 512), (2, 300, 270, 40)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", WAYS)
def test_products_and_updates(way, dtype, shape, monkeypatch):
    take(way, CUDA.device, monkeypatch)
    count, m, n, k = shape
    a = random_stack((count,), m, k, dtype, 1)
    b = random_stack((count,), k, n, dtype, 2)
    a[1, 2, 1], b[-1, 0, 0] = np.inf, np.nan
    # By the data every matrix takes moduli of its own.
    a[0] *= np.float32(2) ** np.random.default_rng(0).integers(-5, 6, (m, k))
    for options in ({"num_moduli": 4}, {}, {"accuracy": "normwise"}):
        found = td.gemm(cp.asarray(a), cp.asarray(b), **options)
        assert_each_is_as_alone(found.get(), "gemm", a, b, **options)
        for name, uplo in (("herk", "full"), ("syrk", "upper")):
            found = getattr(td, name)(cp.asarray(a), uplo=uplo, **options)
            assert_each_is_as_alone(found.get(), name, a, uplo=uplo, **options)


@pytest.mark.parametrize(("dtype", "k"), [("complex128", 20000), ("float32", 70000)])
def test_rows_longer_than_shared_memory(dtype, k):
    A, B = (random_matrix(m, k, dtype, 1.0, m) for m in (400, 70))
    A[3, 5], B[2, k - 1] = np.inf, np.nan
    for x in (A, np.asfortranarray(A)):
        given = cp.asarray(x), cp.asarray(B.T)
        expected = td.gemm(x, B.T, num_moduli=4)
        assert same_bits(td.gemm(*given, num_moduli=4).get(), expected)
        expected = td.herk(x, num_moduli=4)
        assert same_bits(td.herk(given[0], num_moduli=4).get(), expected)
