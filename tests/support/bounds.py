"""Products of magnitudes, compared with those of the reference engine."""

import numpy as np

from twom_dist.kernels import get_engine
from twom_dist.moduli import ZERO_ROW

REFERENCE = get_engine("reference")

SHAPES = [
    *((1, 1, 1), (5, 70, 33), (65, 3, 40), (70, 66, 200), (2, 3, 5000)),
    *((0, 3, 2), (4, 0, 2), (3, 4, 0)),
]


def random_magnitudes(rows, k, seed):
    """Magnitudes from 2^-126 to sqrt(2), half of them above 2^-8, and zeros."""
    rng = np.random.default_rng(seed)
    fields = np.where(rng.random((rows, k)) < 0.5, 119, 1)
    fields = rng.integers(fields, 128)
    found = fields << 7 | rng.integers(0, np.where(fields == 127, 54, 128))
    return np.where(rng.random((rows, k)) < 0.3, 0, found).astype(np.uint16)


def assert_bounds_agree(engine, m, n, k):
    """Compare sums, and largest terms of all pairs and of some."""
    x, y = random_magnitudes(m, k, 1), random_magnitudes(n, k, 2)
    for bits in (min(20, (52 - k.bit_length()) // 2), 7, 1):
        found = engine.multiply_magnitudes(x, y, bits)
        assert found.shape == (m, n)
        assert (found == REFERENCE.multiply_magnitudes(x, y, bits)).all()
    wanted = np.ones((m, n), bool)
    expected = REFERENCE.largest_terms(x, y, wanted)
    found = engine.largest_terms(x, y, wanted)
    assert found.dtype == np.int32
    assert (found == expected).all()
    wanted[::2] = False
    found = engine.largest_terms(x, y, wanted)
    assert (found[wanted] == expected[wanted]).all()
    assert ((found == expected) | (found == ZERO_ROW)).all()
