"""Scaling exponents: the largest valid ones, and proof that nothing overflows M."""

from fractions import Fraction
from functools import partial
from math import isqrt

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import first_number, raises
from tests.support.oracle import exact
from tests.support.strategies import random_matrix
from twom_dist.errors import AccuracyError
from twom_dist.kernels import get_engine
from twom_dist.moduli import (
    NAN_ROW,
    NONFINITE_ROW,
    ZERO_ROW,
    available_moduli,
    norm_bits,
    residue_system,
    scaling_rule,
    smallest_num_moduli,
)

KINDS = ("2m", "3m", "hybrid", "real")
# Bits behind the point of the exact square roots.
BITS = 1600


def root(x: Fraction | int, *, up: bool) -> Fraction:
    """Square root, rounded up or down at 2^-BITS."""
    scaled = Fraction(x) * (1 << 2 * BITS)
    whole = isqrt(scaled.numerator // scaled.denominator)
    return Fraction(whole + 1 if up else whole, 1 << BITS)


def room(system, k: int, *, up: bool) -> Fraction:
    """R - h: what a row's scaled norm may take."""
    h = root(Fraction(system.parts * k, 4), up=not up)
    return root(system.capacity, up=up) - h


def square_norm(row: np.ndarray) -> Fraction:
    """Exact ``||row||^2``."""
    x = exact(row[np.newaxis])
    return Fraction(int((x.re**2 + x.im**2).sum()), 1) / Fraction(4) ** x.shift


def two_to(e: int) -> Fraction:
    return Fraction(2) ** int(e)


def exponents(engine, x: np.ndarray, system, k: int | None = None) -> list[int]:
    rule = scaling_rule(system, k or x.shape[1])
    largest, sums = engine.measure(x, rule.norm_bits, ("squares",)).scales()
    return engine.choose_exponents(largest, sums, rule).tolist()


def assert_largest_valid(x, found, system, k):
    """The exponent fits, and the next one does not beyond the stated slack."""
    slack = 1 + root(2 * k, up=True) / (1 << 19)
    for row, s in zip(x, found, strict=True):
        square = square_norm(row)
        assert root(square, up=True) * two_to(s) <= room(system, k, up=False)
        assert root(square, up=True) * slack * two_to(s + 1) > room(system, k, up=False)


@given(
    kind=st.sampled_from(KINDS),
    count=st.integers(2, 22),
    k=st.sampled_from([1, 2, 7, 1000, 2**16, 2**22 - 1, 2**30]),
    mantissa=st.integers(1, 2**63 - 1),
    cut=st.integers(0, 62),
    largest=st.integers(-1073, 1024),
)
def test_rule_gives_the_largest_valid_exponent(kind, count, k, mantissa, cut, largest):
    system = residue_system(kind, count)
    rule = scaling_rule(system, k)
    if rule is None:
        assert room(system, k, up=False) <= Fraction(1, 2**30)
        return
    square_sum = max(1, mantissa >> cut)
    s = rule.exponent(largest, square_sum)
    # sqrt(S) 2^(e - norm_bits) stands for the norm.
    norm = root(square_sum, up=True) * two_to(largest - rule.norm_bits)
    assert norm * two_to(s) <= room(system, k, up=False)
    # T is rounded down at 2^-32, and S 4^31 at one part in 2^62.
    tolerance = Fraction(1, 2**30)
    assert norm * two_to(s + 1) > room(system, k, up=False) * (1 - tolerance)


@cases("kind", KINDS)
@cases("phi", [0.0, 4.0])
@cases("count", [2, 7, 16])
def test_exponents_are_the_largest_valid_ones(engine, kind, phi, count):
    system = residue_system(kind, count)
    dtype = "float64" if kind == "real" else "complex128"
    x = random_matrix(12, 9, dtype, phi, seed=3)
    x *= np.exp2(np.arange(12) * 1.7 - 9)[:, np.newaxis]
    assert_largest_valid(x, exponents(engine, x, system), system, 9)


@cases("dtype", ["float32", "complex64", "float64", "complex128"])
@cases("end", ["smallest_subnormal", "max"])
def test_exponents_at_the_ends_of_the_format(engine, dtype, end):
    value = getattr(np.finfo(dtype), end)
    x = np.array([[value, 0, value], [-value, value, 0], [value, value, value]], dtype)
    if x.dtype.kind == "c":
        x = x * np.array([[1], [-1j], [1]], dtype)
    system = residue_system("2m" if x.dtype.kind == "c" else "real", 8)
    assert_largest_valid(x, exponents(engine, x, system), system, 3)


def test_largest_exponents_of_rows_of_every_kind(engine):
    x = np.array([[1, 0.5], [0.999, -0.1], [0, -0.0], [-5e-324, 0], [-1.79e308, 3]])
    largest = engine.measure(x, 20).largest
    assert largest.dtype == np.int32
    assert largest.tolist() == [1, 0, ZERO_ROW, -1073, 1024]
    assert engine.measure(x[:4] * (1 - 4j), 20).largest[0] == 3
    x = np.zeros((6, 3), complex)
    x[1, 2], x[2, 0], x[3, 1] = np.nan, np.inf, complex(1, -np.inf)
    x[4, 1], x[5] = complex(np.nan, np.inf), [1e308, np.inf, 5e-324]
    bad = {1: NAN_ROW, 4: NAN_ROW, **dict.fromkeys([2, 3, 5], NONFINITE_ROW)}
    largest, squares = engine.measure(x, 20, ("squares",)).scales()
    assert largest.tolist() == [bad.get(i, ZERO_ROW) for i in range(6)]
    assert squares.tolist() == [0] * 6
    system = residue_system("2m", 16)
    assert exponents(engine, x, system) == [bad.get(i, 0) for i in range(6)]


def test_square_sums_are_exact(engine):
    x = random_matrix(5, 7, "complex128", 4.0)
    # Far below what else is in its row, and yet it counts.
    x[0, 0], x[0, 1] = 5e-324, 1e300
    largest, found = engine.measure(x, 20, ("squares",)).scales()
    expected = []
    for row, e in zip(x, largest, strict=True):
        parts = [Fraction(float(t)) for z in row for t in (z.real, z.imag)]
        scaled = [-(-abs(t) * two_to(20 - e) // 1) for t in parts]
        expected.append(sum(int(t) ** 2 for t in scaled))
    assert found.dtype == np.int64
    assert found.tolist() == expected


@cases("k", [1, 2**10, 2**22 - 1, 2**22, 2**30, 2**40])
def test_norm_bits_are_the_most_that_int64_sums_carry(k):
    bits = norm_bits(k)
    assert 2 * k * 4**bits < 2**63
    assert bits == 20 or 2 * k * 4 ** (bits + 1) >= 2**61
    assert (bits == 20) == (k < 2**22)


@cases("kind", KINDS)
@cases("seed", range(4))
def test_integer_products_stay_within_the_capacity(kind, seed):
    """Parallel rows and columns: Cauchy-Schwarz is sharp there."""
    engine = get_engine("cpu")
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 40))
    count = smallest_num_moduli(kind, k, 22) + int(rng.integers(3 * (seed % 2) + 1))
    system = residue_system(kind, count)
    x = random_matrix(3, k, "float64" if kind == "real" else "complex128", 0.3, seed)
    x[1] = 0.75 if seed % 2 else rng.choice([-1.0, 1.0], k)
    y = x.conj() * np.array([[1.0], [3.0], [0.7]])
    (re, im), (u, v) = (quantised(t, exponents(engine, t, system)) for t in (x, y))
    parts = re @ u.T - im @ v.T, re @ v.T + im @ u.T
    largest_part = max(abs(t).max() for t in parts)
    assert system.capacity / 2**10 < largest_part <= system.capacity


def quantised(x: np.ndarray, exponents: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Parts of rint(x 2^s) as integers, ties to even."""
    scale = [[two_to(e)] for e in exponents]
    exactly = np.frompyfunc(lambda t: Fraction(float(t)), 1, 1)
    whole = np.frompyfunc(round, 1, 1)
    return tuple(whole(exactly(part) * scale) for part in (x.real, x.imag))


@cases("kind", ["2m", "3m", "hybrid"])
@cases("k", [300, 5000, 10**9])
def test_too_few_moduli_for_a_long_k_are_refused(kind, k):
    least = smallest_num_moduli(kind, k, len(available_moduli(kind)))
    assert least == smallest_num_moduli(kind, k, least) > 1
    given = {"dtype": "complex128", "method": kind, "chunks": 2**26}
    plan = partial(td.plan, td.gemm, (3, k), (k, 3), **given)
    assert plan(num_moduli=least).num_moduli == least
    with raises(AccuracyError, "too-few-moduli") as caught:
        plan(num_moduli=least - 1)
    assert first_number(caught.value.remedy) == least
    assert room(residue_system(kind, least), k, up=True) > 0
    assert room(residue_system(kind, least - 1), k, up=False) < Fraction(1, 2**30)
