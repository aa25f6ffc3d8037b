"""The combine kernel against exact integers."""

import numpy as np

from tests.support.cases import cases
from tests.support.cuda.calls import UNTOUCHED, guarded


def expected_residues(r, s, weights, p) -> np.ndarray:
    straight, transposed, other = weights
    total = straight * r.astype(np.int64) + transposed * r.T.astype(np.int64)
    if s is not None:
        total += other * s.astype(np.int64)
    return (total + p // 2) % p - p // 2


@cases("p", [256, 255, 241, 131, 29, 19])
@cases("n", [1, 2, 3, 4, 7, 16, 31, 36, 70, 132])
def test_every_size(calls, n, p):
    rng = np.random.default_rng([n, p])
    low, high = -(p // 2), (p - 1) // 2
    r, s = rng.integers(low, high, (2, n, n), np.int8, endpoint=True)
    r.flat[0], s.flat[0] = low, high
    half = (p + 1) // 2 - p
    for weights in (
        (1, 1, 2),
        (half, -half, 0),
        (0, 1, 0),
        (low, low, low),
        (high,) * 3,
    ):
        for other in (s, None):
            found = calls.combine(r, other, weights, p)
            assert (found == expected_residues(r, other, weights, p)).all()


@cases("triangle", ["lower", "upper"])
@cases("n", [1, 3, 4, 31, 70, 132])
def test_a_triangle(calls, n, triangle):
    p, weights = 241, (3, -5, 7)
    r = np.random.default_rng(n).integers(-120, 121, (n, n), np.int8)
    found = calls.combine(r, None, weights, p, triangle=triangle)
    wanted = np.tri(n, dtype=bool)
    wanted = wanted if triangle == "lower" else wanted.T
    expected = expected_residues(r, None, weights, p)
    assert (found == expected)[wanted].all()
    # Groups of 4 x 4 beyond the diagonal are not written.
    far = ~np.kron(wanted[::4, ::4], np.ones((4, 4), bool))[:n, :n]
    assert (found == UNTOUCHED)[far].all()


def test_wide_rows(calls):
    n, p, weights = 20, 239, (3, -5, 7)
    with guarded((n, n), np.int8, 3) as r:
        r %= 100
        found = calls.combine(r, None, weights, p, pad=32)
        assert (found == expected_residues(r, None, weights, p)).all()
