"""Bounds of rho by octaves, against exact numbers."""

from fractions import Fraction
from math import inf
from types import SimpleNamespace

import numpy as np

from tests.check.tiles.test_look import exact_square
from tests.support.cases import cases
from tests.support.families import hard_pairs
from twom_dist.kernels import get_engine
from twom_dist.kernels.statistics import RowStatistics
from twom_dist.moduli import norm_bits
from twom_dist.tiles.analysis.ratios import LargestTerms, bound_by_octaves, norm_steps

REFERENCE = get_engine("reference")


def octaves_of(x, engine=REFERENCE):
    found = engine.measure(x, norm_bits(x.shape[1]), ("squares", "totals", "octaves"))
    return engine.octaves(x, found.largest), found


def bound_by_terms(least, left, right, k):
    terms = LargestTerms(k)
    terms.add(least, left, right)
    return terms.ratio


def test_steps_of_norms_are_the_least_that_are_large_enough():
    squares = np.array([1 << 38, (1 << 38) + 1, 1 << 40, 3 << 40, 2**47 - 1, 2**52])
    for square, step in zip(squares.tolist(), norm_steps(squares, 1000), strict=True):
        # square <= 2^(40 + step / 4), to the fourth power.
        assert square**4 <= Fraction(2) ** (160 + int(step))
        assert square**4 > Fraction(2) ** (159 + int(step))


def test_octaves_bound_every_pair():
    """By exact numbers, and whatever the parts of rows and of k, and the stacks."""
    for name, (a, b) in hard_pairs(60, 5, 5):
        k = a.shape[1]
        if k > 60:
            continue
        ratio = exact_square(a, b.T) * (1 - Fraction(1, 2**40))
        (x, left), (y, right) = (octaves_of(t) for t in (a, b.T))
        least = REFERENCE.multiply_octaves(x, y)
        by_rows = bound_by_octaves([left], [right], k)[0]
        for square in (by_rows, bound_by_terms(least, left, right, k)):
            assert square == inf or ratio <= Fraction(square), name
        parts = [left.take(slice(i, i + 2)) for i in range(0, len(a), 2)]
        assert bound_by_octaves(parts, [right], k)[0] == by_rows
        stack = [
            RowStatistics(*(t if t is None else t[None] for t in s))
            for s in (left, right)
        ]
        assert bound_by_octaves(stack[:1], stack[1:], k).tolist() == [by_rows]


def test_pairs_that_meet_nowhere_have_no_bound():
    x = np.kron(np.eye(3), np.ones((2, 13)))
    octaves, measured = octaves_of(x)
    least = REFERENCE.multiply_octaves(octaves, octaves)
    assert bound_by_octaves([measured], [measured], 39)[0] == inf
    assert 1 <= bound_by_terms(least, measured, measured, 39) < 40**2
    # An entry so far below that nobody knows where: every pair of its row may meet it.
    x[0, 38] = 2.0**-70
    octaves, measured = octaves_of(x)
    least = REFERENCE.multiply_octaves(octaves, octaves)
    assert bound_by_terms(least, measured, measured, 39) == inf


def drawn(kind, rows, k, rng):
    x = np.exp((4 if kind == "spread" else 0.5) * rng.standard_normal((rows, k)))
    if kind == "few":
        x[rng.random(x.shape) < 0.995] = 0
    elif kind != "spread":
        x[np.arange(rows), rng.integers(0, k, rows)] = 1e9
    x[:2] = [[0], [np.nan]]
    if kind == "far":
        x[2, 4] = 1e-60
    return x


@cases("kind", ["spread", "peaks", "few", "far"])
@cases("name", ["cpu", "reference"])
def test_pairs_that_end_early_change_no_bound(kind, name):
    """Most are never finished, unless few entries meet."""
    rng, engine, k, opened = np.random.default_rng(0), get_engine(name), 6000, []
    a, b = (drawn(kind, n, k, rng) for n in (150, 130))
    (x, left), (y, right) = (octaves_of(t, get_engine("cpu")) for t in (a, b))

    def multiply(x, y, least, enough):
        sums = enough[0].astype(int)[:, np.newaxis] + enough[1]
        opened.append((8 * least.astype(int) > sums).mean())
        return engine.multiply_octaves(x, y, least, enough)

    terms, spy = LargestTerms(k), SimpleNamespace(multiply_octaves=multiply)
    tiles = [*zip(*(np.split(t, (1000, 3000), axis=1) for t in (x, y)), strict=True)]
    terms.multiply(spy, tiles, left, right)
    least = REFERENCE.multiply_octaves(x, y)
    assert terms.ratio == bound_by_terms(least, left, right, k)
    assert (terms.ratio == inf) == (kind == "far")
    # The last tile, of half of the terms.
    assert (opened[-1] > 0.5) == (kind == "few")
    assert opened[-1] <= {"few": 1, "spread": 0.02, "peaks": 0.001, "far": 0}[kind]
    found = terms.level
    terms.multiply(engine, iter(tiles), left, right)
    assert terms.level == found
