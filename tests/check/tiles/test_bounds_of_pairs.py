"""Bounds of rows and pairs, each against exact numbers."""

from fractions import Fraction
from math import inf, isqrt, sqrt

import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.families import hard_pairs
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.kernels import get_engine
from twom_dist.moduli import norm_bits, residue_system, scaling_rule
from twom_dist.moduli.accuracy import (
    componentwise_system,
    fewest_systems,
    largest_ratio,
    quantisation_bound,
)
from twom_dist.problem.problem import of_arrays
from twom_dist.tiles.look.angles import (
    add_angles,
    bound_ratios,
    find_cosines,
    find_sines,
)
from twom_dist.tiles.look.measured import Measured
from twom_dist.tiles.look.ratios import bound_by_octaves, bound_by_terms, norm_steps

REFERENCE = get_engine("reference")
# Bits behind the point of square roots: below them and above.
BITS = 400


def root(square: Fraction, up: bool) -> Fraction:
    """Square root, rounded to 2^-BITS."""
    scaled = square * (1 << 2 * BITS)
    whole = isqrt(scaled.numerator // scaled.denominator)
    return Fraction(whole + up, 1 << BITS)


def sizes_of(x: np.ndarray, up: bool) -> np.ndarray:
    """Exact magnitudes of a matrix, rounded to 2^-BITS, as Fractions."""
    one = np.frompyfunc(
        lambda t: root(Fraction(t.real) ** 2 + Fraction(t.imag) ** 2, up), 1, 1
    )
    return one(x.astype(complex))


def measure(x: np.ndarray, engine=REFERENCE) -> Measured:
    largest = engine.largest_exponents(x)
    return Measured(largest, *engine.row_sums(x, largest, norm_bits(x.shape[1])))


def octaves_of(x: np.ndarray) -> tuple[np.ndarray, Measured]:
    """Octaves of a matrix, and what is known of its rows."""
    measured = measure(x)
    octaves = REFERENCE.octaves(x, measured.largest)
    counts = REFERENCE.count_octaves(octaves)
    return octaves, measured._replace(octaves=counts)


def exact_ratio(a: np.ndarray, b: np.ndarray) -> Fraction:
    """rho^2 of the rows of a and b, rounded up by less than 2^-300 of itself."""
    below, above = [sizes_of(x, False) for x in (a, b)], [a, b]
    products = below[0] @ below[1].T
    squares = [(sizes_of(x, True) ** 2).sum(axis=1) for x in above]
    return max(
        (
            p * q / products[i, j] ** 2
            for i, p in enumerate(squares[0])
            for j, q in enumerate(squares[1])
            if products[i, j] != 0
        ),
        default=Fraction(0),
    )


def some_rows(dtype: str, seed: int) -> np.ndarray:
    """Rows of every spread, with zeros and numbers that are hard to round."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([random_matrix(2, 9, dtype, phi, seed) for phi in (0, 1, 6)])
    x = np.concatenate([x, np.ones((2, 9), dtype), np.eye(2, 9, dtype=dtype)])
    x[-3] = np.nextafter(np.ones(9, x.real.dtype), 2)
    x[rng.random(x.shape) < 0.1] = 0
    return x[x.any(axis=1)]


# --- every bound, against exact numbers -----------------------------------------------


@cases("dtype", DTYPES)
@cases("seed", range(3))
def test_sums_of_rows_bound_norms_and_magnitudes(dtype, seed):
    x = some_rows(dtype, seed)
    bits, known = norm_bits(x.shape[1]), measure(some_rows(dtype, seed))
    for row, e, squares, total in zip(x, *known[:3], strict=True):
        unit = Fraction(2) ** (bits - int(e))
        exact = [sizes_of(row[np.newaxis], up)[0] for up in (False, True)]
        assert squares >= sum(t**2 for t in exact[0]) * unit**2
        assert total <= sum(exact[0]) * unit
        # And not much less.
        assert total >= sum(exact[1]) * unit - 4 * len(row)


@cases("dtype", DTYPES)
@cases("seed", range(3))
def test_cosines_and_sines_of_angles_are_bounds(dtype, seed):
    x = some_rows(dtype, seed)
    cosines = find_cosines(measure(x), x.shape[1])
    sines = find_sines(cosines)
    for row, c, s in zip(x, cosines, sines, strict=True):
        exact = sizes_of(row[np.newaxis], False)[0]
        square = sum(exact) ** 2 / (len(row) * sum(t**2 for t in exact))
        assert Fraction(c) ** 2 <= square * (1 + Fraction(1, 2**200))
        assert Fraction(s) ** 2 >= 1 - Fraction(c) ** 2
        assert c >= sqrt(square) - 1e-4


def test_every_rounding_of_angles_goes_to_the_safe_side():
    """Of numbers that no matrix has to have: each rounding may go either way."""
    rng = np.random.default_rng(0)
    k, count = 7, 400
    squares = rng.integers(2**40, 2**43, count)
    totals = (np.sqrt(squares * float(k)) * rng.random(count)).astype(np.int64)
    cosines = find_cosines(Measured(totals, squares, totals), k)
    for c, s, q in zip(cosines, totals.tolist(), squares.tolist(), strict=True):
        assert Fraction(c) ** 2 * k * q <= s * s
    near = 1 - rng.random(count) * 2.0 ** -rng.integers(1, 50, count)
    for x, y in zip(near, np.roll(near, 1), strict=True):
        exact = [1 - Fraction(t) ** 2 for t in (x, y)]
        least = Fraction(x) * Fraction(y) - root(exact[0] * exact[1], False)
        bound, ratio = add_angles(x, y), bound_ratios(x, y)
        assert Fraction(float(bound)) <= least
        assert not np.isfinite(ratio) or Fraction(float(ratio)) * least**2 >= 1
        if bound > 0:
            assert Fraction(float(ratio)) * Fraction(float(bound)) ** 2 > 1


def test_angles_bound_every_pair():
    close = 0
    for seed in range(4):
        x, y = (some_rows("complex128", t)[:6] for t in (seed, seed + 10))
        cosines = [find_cosines(measure(t), 9) for t in (x, y)]
        bounds = bound_ratios(cosines[0][:, np.newaxis], cosines[1])
        for i, j in np.ndindex(bounds.shape):
            exact = exact_ratio(x[[i]], y[[j]])
            if np.isfinite(bounds[i, j]):
                assert Fraction(bounds[i, j]) >= exact * (1 - Fraction(1, 2**200))
                close += bounds[i, j] < 4 * exact
    assert close > 20


def test_angles_that_cannot_be_told_apart_from_0_are_not_above_it():
    """Of rows of ones the exact cosines are 1: each rounding has to go down."""
    for k in (1, 3, 7, 1000):
        x = np.ones((1, k))
        (cosine,) = find_cosines(measure(x, get_engine("cpu")), k)
        assert cosine < 1
        assert 1 <= bound_ratios(cosine, cosine) < 1.001
    assert bound_ratios(sqrt(0.5), sqrt(0.5)) > 1e20  # a right angle
    assert bound_ratios(0.1, 0.1) == np.inf


@pytest.mark.parametrize("count", [3, 15])
def test_rounding_errors_bound_those_of_the_encoded_rows(engine, count):
    """With few moduli errors have more bits than are summed."""
    system = residue_system("2m", count)
    x = random_matrix(5, 40, "complex128", 2.0, 1)
    x[1], x[2, 3], x[3] = 0, np.nan, 2.0 ** np.arange(40) if count > 3 else 0
    largest = engine.largest_exponents(x)
    rule = scaling_rule(system, 40)
    e = engine.choose_exponents(largest, engine.square_sums(x, largest, 20), rule)
    found = engine.error_sums(x, e, 20)
    assert found[[1, 2, 3]].tolist() == [0, 0, 0]
    for row, s, total in zip(x[[0, 4]], e[[0, 4]], found[[0, 4]], strict=True):
        parts = [Fraction(t) * Fraction(2) ** int(s) for t in (*row.real, *row.imag)]
        exact = sum((t - round(t)) ** 2 for t in parts) * 4**20
        assert exact <= int(total) <= exact * (1 + Fraction(1, 1000))


@cases(("method", "u"), [("2m", 2.0**-53), ("real", 2.0**-53), ("2m", 2.0**-24)])
@cases("k", [1, 40, 1000, 10**6])
def test_the_fewest_systems_suffice_up_to_their_ratio(method, u, k):
    systems = fewest_systems(method, k, u)
    assert [x for x, _ in systems] == [
        componentwise_system(method, k, ratio, u) for _, ratio in systems
    ]
    first, second = (x for x, _ in systems)
    assert componentwise_system(method, k, 1.0, u) is first
    assert second.num_moduli == first.num_moduli + 1
    for system, most in systems:
        assert most == largest_ratio(system, k, u)
        assert quantisation_bound(system, k) * sqrt(most) <= sqrt(k) * u
        assert componentwise_system(method, k, most * 1.01, u) is not system


def test_steps_of_norms_are_the_least_that_are_large_enough():
    squares = np.array([1 << 38, (1 << 38) + 1, 1 << 40, 3 << 40, 2**47 - 1, 2**52])
    for square, step in zip(squares.tolist(), norm_steps(squares, 1000), strict=True):
        # square <= 2^(40 + step / 4), to the fourth power.
        assert square**4 <= Fraction(2) ** (160 + int(step))
        assert square**4 > Fraction(2) ** (159 + int(step))


def test_octaves_bound_every_pair():
    """By exact numbers, and whatever the parts of rows and of k, and the stacks."""
    for name, (a, b) in hard_pairs(90, 7, 5):
        k = a.shape[1]
        if k > 60:
            continue
        ratio = exact_ratio(a, b.T)
        (x, left), (y, right) = (octaves_of(t) for t in (a, b.T))
        least = REFERENCE.multiply_octaves(x, y)
        by_rows = bound_by_octaves([left], [right], k)[0]
        for square in (by_rows, bound_by_terms(least, left, right, k)):
            assert square == inf or ratio <= Fraction(square), name
        parts = [left.take(slice(i, i + 2)) for i in range(0, len(a), 2)]
        assert bound_by_octaves(parts, [right], k)[0] == by_rows
        stack = [
            Measured(*(t if t is None else t[None] for t in s)) for s in (left, right)
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


def test_what_explain_says_is_at_least_rho():
    """Of exact numbers, over data of every spread and of every step."""
    ways = set()
    for name, (a, b) in hard_pairs(90, 7, 4):
        if a.shape[1] > 60:
            continue
        found = td.explain(td.gemm, a, b, equilibrate=False)
        rho = root(exact_ratio(a, b.T), True)
        if found.num_moduli:
            assert rho <= Fraction(found.rho) * (1 + Fraction(1, 2**40)), name
            ways.add(found.closed_by)
        spec = of_arrays(*td.gemm.ask(a, b, equilibrate=False)[:3]).spec
        fewest = [x for x, _ in fewest_systems(spec.method, spec.k, spec.unit_roundoff)]
        needed = componentwise_system(
            spec.method, spec.k, float(rho**2) * 1.07, spec.unit_roundoff
        )
        most = max(x.num_moduli for x in (fewest[-1], needed or found))
        assert found.num_moduli <= most + 5, name
    assert ways == {"sums", "errors", "octaves", "pairs"}
