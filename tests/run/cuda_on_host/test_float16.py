"""Products in float16: no sum that float32 does not hold, which the device refuses."""

import numpy as np
import pytest

from tests.support.contract.products import assert_exact, encode_integers
from tests.support.pipeline import add_both_ways
from tests.support.strategies import random_matrix
from twom_dist.kernels.cuda.int8_gemm import largest_k
from twom_dist.moduli import available_moduli, make_system, residue_system

pytestmark = pytest.mark.parametrize("engine", [103], indirect=True)


@pytest.mark.parametrize("p", [131, 241, 256])
def test_extreme_residues_at_the_limit_of_a_chunk(engine, p):
    system, half = make_system("real", ((p, "real"),)), p // 2
    k = largest_k([p], "float16")
    assert k * half**2 < 1 << 24 <= (k + 16) * half**2
    for columns in (k, 2 * k + 5):
        for a, b in ((-half, -half), (half - 1, -half)):
            left, right = (
                encode_integers(engine, np.full((3, columns), float(t)), system)
                for t in (a, b)
            )
            exact = [np.full((3, 3), (a * b * columns + half) % p - half)]
            found = engine.multiply(left, right, system)
            assert_exact(found, exact, system)
            for twice in add_both_ways(engine, left, right, system, found):
                assert_exact(twice, exact, system, 2)


def test_a_product_takes_as_many_calls_as_its_columns_need(engine):
    system, k = residue_system("real", 15), 8000
    left, right = (
        encode_integers(engine, random_matrix(t, k, "float64"), system) for t in (2, 17)
    )
    engine.multiply(left, right, system)
    calls = engine.device.launched.count("multiply_float16")
    columns = largest_k(system.moduli, "float16")
    assert -(-k // 7280) <= calls <= -(-k // columns) * system.num_products


def test_no_modulus_is_too_large_for_a_chunk(engine):
    methods = ("2m", "3m", "4m", "hybrid", "eisenstein", "real")
    moduli = {p for method in methods for p, _ in available_moduli(method)}
    assert min(largest_k([p], "float16") for p in moduli) == 1008
    assert {largest_k([p], "int8") for p in moduli} == {1 << 16}
