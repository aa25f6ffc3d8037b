"""What the moduli are chosen by, on a device: the numbers of the CPU."""

import numpy as np
import pytest
from twom_dist.tiles.look.every_pair import magnitude_bits

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.errors import EngineUnavailableError
from twom_dist.kernels import get_engine
from twom_dist.moduli import norm_bits

pytestmark = pytest.mark.gpu

try:
    engine = get_engine("cuda")
except EngineUnavailableError as error:
    # No device, driver or CuPy: the engine's own sentence is the reason.
    pytest.skip(str(error), allow_module_level=True)

cp = pytest.importorskip("cupy")


@pytest.mark.parametrize("shape", [(5, 7, 3), (300, 40, 2000), (40, 530, 5000)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_looked_at_is_what_the_cpu_finds(dtype, shape):
    (m, n, k), host = shape, get_engine("cpu")
    x, y = random_matrix(m, k, dtype, 3.0, 1), random_matrix(n, k, dtype, 3.0, 2)
    x[1], x[2, 2], y[4, :2] = 0, np.inf, 0
    operands = [cp.asarray(x), cp.asarray(np.asfortranarray(y))]
    found = engine.survey(operands, 20, totals=True, columns=True)
    fetched = engine.fetch([t for own in found for t in own])
    magnitudes, expected = [], []
    for i, t in enumerate((x, y)):
        largest = host.largest_exponents(t)
        wanted = largest, *host.row_sums(t, largest, 20)
        wanted = *wanted, host.column_exponents(t, largest)
        for own, other in zip(fetched[4 * i : 4 * i + 4], wanted, strict=True):
            assert (own == other).all()
        own = engine.magnitudes(operands[i], found[i].largest_exponents)
        magnitudes.append(own)
        expected.append(host.magnitudes(t, largest))
        assert (cp.asnumpy(own) == expected[i]).all()
    for digits in (0, 1, 2):
        products = engine.multiply_digits(*magnitudes, digits)
        wanted = host.multiply_digits(*expected, digits)
        assert (cp.asnumpy(products) == wanted).all()
    pairs = np.nonzero(wanted % 3 != 1)
    sums, terms = engine.bound_pairs(*magnitudes, *pairs, 20)
    exact, found = host.bound_pairs(*expected, *pairs, 20)
    assert (sums == exact).all()
    # Terms decide only where sums are too small to tell.
    assert (terms == found)[exact < 2**20].all()


@pytest.mark.parametrize("size", [200, 700, 2100])
def test_the_data_take_the_moduli_that_they_take_on_the_cpu(size):
    A, B = (random_matrix(size, size, "complex128", 1.5, seed) for seed in (1, 2))
    D = np.ldexp(1.0, np.arange(size) % 40)
    for left, right in ((A, B), (A * D, B / D[:, np.newaxis]), (np.triu(A), B)):
        found = td.gemm(cp.asarray(left), cp.asarray(right))
        expected = td.gemm(left, right)
        assert same_bits(cp.asnumpy(found), expected)


@pytest.mark.parametrize("phi", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("shape", [(300, 530, 100), (900, 900, 20)])
def test_all_pairs_at_once_have_the_largest_bound_of_the_cpu(shape, phi):
    (m, n, k), cpu = shape, get_engine("cpu")
    x, y = (
        random_matrix(t, k, "complex128", phi, seed) for seed, t in enumerate((m, n))
    )
    x[1], x[2, 2], y[4, :2], y[: n // 2, : k // 2] = 0, np.inf, 0, 0
    for operands in ([x, y], [np.asfortranarray(x)]):
        given = norm_bits(k), magnitude_bits(k)
        found = []
        for own, matrices in ((engine, [*map(cp.asarray, operands)]), (cpu, operands)):
            weighed = own.weigh(matrices, given[0], columns=True, rule=None)
            for limit in (1.0, 206.6, 206.6):
                found.append(weighed.largest_ratio(limit, given[1]))
        assert found[:3] == found[3:]
