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
from tests.support.strategies import random_matrix
from twom_dist import moduli
from twom_dist.errors import AccuracyError
from twom_dist.moduli import residue_system

KINDS = ("2m", "3m", "hybrid", "real")
# Bits behind the point of the exact square roots.
BITS = 1600


def root(x, *, up):
    """Square root, rounded up or down at 2^-BITS."""
    scaled = Fraction(x) * (1 << 2 * BITS)
    whole = isqrt(scaled.numerator // scaled.denominator)
    return Fraction(whole + 1 if up else whole, 1 << BITS)


def room(system, k, *, up):
    """R - h: what a row's scaled norm may take."""
    h = root(Fraction(system.parts * k, 4), up=not up)
    return root(system.capacity, up=up) - h


def two_to(e):
    return Fraction(2) ** int(e)


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
    rule = moduli.scaling_rule(system, k)
    if rule is None:
        assert room(system, k, up=False) <= Fraction(1, 2**30)
        return
    # A sum that just fits fits, as for the engines.
    top = [rule.exponent(0, rule.leading + x) for x in (-1, 0, 1)]
    assert top[0] == top[1] == top[2] + 1 or rule.leading >= 2**63 - 1
    # Rows without a finite number, and of zeros, keep their marks.
    for mark in (moduli.NAN_ROW, moduli.NONFINITE_ROW, moduli.ZERO_ROW):
        assert rule.exponent(mark, 0) == (mark if mark > 0 else 0)
    square_sum = max(1, mantissa >> cut)
    s = rule.exponent(largest, square_sum)
    # sqrt(S) 2^(e - norm_bits) stands for the norm.
    norm = root(square_sum, up=True) * two_to(largest - rule.norm_bits)
    assert norm * two_to(s) <= room(system, k, up=False)
    # T is rounded down at 2^-32, and S 4^31 at one part in 2^62.
    tolerance = Fraction(1, 2**30)
    assert norm * two_to(s + 1) > room(system, k, up=False) * (1 - tolerance)


def test_square_sums_are_exact(engine):
    x = random_matrix(5, 7, "complex128", 4.0)
    # Far below what else is in its row, and yet it counts.
    x[0, 0], x[0, 1] = 5e-324, 1e300
    largest, found = engine.measure(x, 20, ("squares",))[:2]
    expected = []
    for row, e in zip(x, largest, strict=True):
        parts = [Fraction(float(t)) for z in row for t in (z.real, z.imag)]
        scaled = [-(-abs(t) * two_to(20 - e) // 1) for t in parts]
        expected.append(sum(int(t) ** 2 for t in scaled))
    assert found.dtype == np.int64
    assert found.tolist() == expected


@cases("k", [1, 2**10, 2**22 - 1, 2**22, 2**30, 2**40])
def test_norm_bits_are_the_most_that_int64_sums_carry(k):
    bits = moduli.norm_bits(k)
    assert 2 * k * 4**bits < 2**63
    assert bits == 20 or 2 * k * 4 ** (bits + 1) >= 2**61
    assert (bits == 20) == (k < 2**22)


@cases("kind", ["2m", "3m", "hybrid"])
@cases("k", [300, 5000, 10**9])
def test_too_few_moduli_for_a_long_k_are_refused(kind, k):
    least = moduli.smallest_num_moduli(kind, k, len(moduli.available_moduli(kind)))
    assert least == moduli.smallest_num_moduli(kind, k, least) > 1
    given = {"dtype": "complex128", "method": kind, "chunks": 2**26}
    plan = partial(td.plan, td.gemm, (3, k), (k, 3), **given)
    assert plan(num_moduli=least).num_moduli == least
    with raises(AccuracyError, "too-few-moduli") as caught:
        plan(num_moduli=least - 1)
    assert first_number(caught.value.remedy) == least
    assert room(residue_system(kind, least), k, up=True) > 0
    assert room(residue_system(kind, least - 1), k, up=False) < Fraction(1, 2**30)
