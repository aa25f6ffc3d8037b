"""Products in float16: no sum that float32 does not hold, which the device refuses."""

import numpy as np
import pytest

from tests.support.cases import cases
from tests.support.contract.products import assert_exact, encode_integers
from tests.support.pipeline import add_both_ways
from twom_dist.moduli import make_system

pytestmark = pytest.mark.parametrize("engine", [103], indirect=True)


@cases("p", [131, 241, 256])
def test_extreme_residues_at_the_limit_of_a_chunk(engine, p):
    system, half = make_system("real", ((p, "real"),)), p // 2
    k = ((1 << 24) - 1) // half**2 // 16 * 16
    for columns in (k, 2 * k + 5):
        for a, b in ((-half, -half), ((p - 1) // 2, -half)):
            left, right = (
                encode_integers(engine, np.full((3, columns), float(t)), system)
                for t in (a, b)
            )
            exact = [np.full((3, 3), (a * b * columns + half) % p - half)]
            found = engine.multiply(left, right, system)
            assert_exact(found, exact, system)
            for twice in add_both_ways(engine, left, right, system, found):
                assert_exact(twice, exact, system, 2)
