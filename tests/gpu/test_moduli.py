"""What the moduli are chosen by, on a device: the numbers of the CPU."""

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.errors import EngineUnavailableError
from twom_dist.kernels import get_engine
from twom_dist.kernels.operands import Sample

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
    chosen = np.arange(m)[::2], np.arange(n)
    samples, on_device = [], []
    operands = [cp.asarray(x), cp.asarray(np.asfortranarray(y))]
    found = engine.survey(operands, 20, columns=True)
    fetched = engine.fetch([t for own in found for t in own])
    for i, t in enumerate((x, y)):
        largest = host.largest_exponents(t)
        expected = largest, host.square_sums(t, largest, 20)
        expected = *expected, host.column_exponents(t, largest)
        for own, wanted in zip(fetched[3 * i : 3 * i + 3], expected, strict=True):
            assert (own == wanted).all()
        samples.append(Sample(t, largest, chosen[i]))
        on_device.append(Sample(operands[i], found[i].largest_exponents, chosen[i]))
    magnitudes, expected = engine.magnitudes(on_device), host.magnitudes(samples)
    for own, wanted in zip(magnitudes, expected, strict=True):
        assert (cp.asnumpy(own) == wanted).all()
    for bits in (19, 5):
        (sums,) = engine.fetch([engine.multiply_magnitudes(*magnitudes, bits)])
        assert (sums == host.multiply_magnitudes(*expected, bits)).all()
    wanted = np.ones(sums.shape, bool)
    (terms,) = engine.fetch([engine.largest_terms(*magnitudes, wanted)])
    assert (terms == host.largest_terms(*expected, wanted)).all()


@pytest.mark.parametrize("accuracy", ["native", "componentwise"])
@pytest.mark.parametrize("size", [200, 700, 2100])
def test_the_data_take_the_moduli_that_they_take_on_the_cpu(accuracy, size):
    A, B = (random_matrix(size, size, "complex128", 1.5, seed) for seed in (1, 2))
    D = np.ldexp(1.0, np.arange(size) % 40)
    for left, right in ((A, B), (A * D, B / D[:, np.newaxis]), (np.triu(A), B)):
        found = td.gemm(cp.asarray(left), cp.asarray(right), accuracy=accuracy)
        expected = td.gemm(left, right, accuracy=accuracy)
        assert same_bits(cp.asnumpy(found), expected)
