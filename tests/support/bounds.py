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
    """Compare products of digits of all pairs, and sums and terms of some."""
    x, y = random_magnitudes(m, k, 1), random_magnitudes(n, k, 2)
    for digits in (0, 1, 2):
        found = engine.multiply_digits(x, y, digits)
        assert found.shape == (m, n)
        assert (np.asarray(found) == REFERENCE.multiply_digits(x, y, digits)).all()
    rows, columns = np.nonzero(np.indices((m, n)).sum(axis=0) % 3 != 1)
    for bits in (20, 13):
        found = engine.bound_pairs(x, y, rows, columns, bits)
        expected = REFERENCE.bound_pairs(x, y, rows, columns, bits)
        assert [t.dtype for t in found] == [np.int64, np.int32]
        assert (found[0] == expected[0]).all()
        told = (found[1] == expected[1]) | (expected[0] >= 2**bits)
        assert told.all()
    products = REFERENCE.multiply_digits(x, y, 1)
    left, right = (np.random.default_rng(t).random(t) for t in (m, n))
    for factor in (0.0, 1e-9, 1e-6, 1.0):
        for own in (products, products.astype(np.int32)):
            found = engine.find_open(own, left, right, factor, m * n)
            expected = REFERENCE.find_open(products, left, right, factor, m * n)
            assert all(map(np.array_equal, found, expected))
            count = len(expected[0])
            assert engine.find_open(own, left, right, factor, count) is not None
            if count:
                none = engine.find_open(own, left, right, factor, count - 1)
                assert none is None


def assert_terms_are_of_what_meets(engine):
    """Tell the largest term of rows, to which a number beside a zero adds none."""
    one, half, tiny = 0x3F80, 0x3F00, 0x0080  # 1, 1/2, 2^-126
    x = np.array([[one, 0, tiny], [0, one, 0]], np.uint16)
    y = np.array([[0, 0, tiny], [0, half, half], [one, 0, 0]], np.uint16)
    pairs = np.repeat([0, 1], 3), np.tile([0, 1, 2], 2)
    sums, found = engine.bound_pairs(x, y, *pairs, 20)
    known = np.where(sums < 2**20, found, 0)
    assert known.tolist() == [-252, -127, 0, ZERO_ROW, 0, ZERO_ROW]
    assert (found[sums == 0] == known[sums == 0]).all()
