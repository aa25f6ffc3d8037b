"""Moduli, CRT and residue systems, against recorded numbers and exact integers."""

from fractions import Fraction
from math import gcd, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.oracle import reconstruct
from tests.support.strategies import seeds
from twom_dist.errors import AccuracyError
from twom_dist.moduli import available_moduli, crt, make_system, residue_system
from twom_dist.moduli.selection import (
    hybrid_moduli,
    log2_product,
    real_moduli,
    two_m_moduli,
)
from twom_dist.moduli.system import combined_weights, first_system

# Int8 products of a modulus of each kind.
PRODUCTS = {"2m": 2, "3m": 3, "4m": 4, "real": 1}
KINDS = (*PRODUCTS, "hybrid")


def all_systems(kind):
    return [residue_system(kind, n + 1) for n in range(len(available_moduli(kind)))]


def greedily(fits):
    """List the largest coprime moduli that fit, from 256 down."""
    found = []
    for p in range(256, 28, -1):
        if fits(p) and all(gcd(p, q) == 1 for q in found):
            found.append(p)
    return tuple(found)


def test_moduli_and_roots_are_those_of_the_paper():
    def square(p):  # the smaller root
        return next((r for r in range(1, p) if (r * r + 1) % p == 0), None)

    assert all(crt.root_of_minus_one(p) == square(p) for p in range(3, 257, 2))
    assert two_m_moduli() == greedily(lambda p: p % 2 and square(p))
    assert (two_m_moduli()[:5], len(two_m_moduli())) == ((241, 233, 229, 221, 205), 22)
    assert real_moduli() == greedily(lambda p: True)
    assert log2_product(real_moduli()) == pytest.approx(341.877, abs=5e-4)
    moduli, kinds = zip(*hybrid_moduli(), strict=True)
    assert moduli[:24] == (*two_m_moduli()[:20], 256, 253, 251, 249)
    assert kinds == ("2m",) * 20 + ("3m",) * (len(kinds) - 20)


@cases("kind", KINDS)
def test_systems_are_coprime_and_count_their_products(kind):
    available = available_moduli(kind)
    moduli = [p for p, _ in available]
    assert all(gcd(p, q) == 1 for i, p in enumerate(moduli) for q in moduli[:i])
    assert all(2 <= p <= 256 for p in moduli)
    for system in all_systems(kind):
        assert system.num_products == sum(PRODUCTS[k] for _, k in system.choice)
        assert system.parts == (1 if kind == "real" else 2)
        assert 0 < 2 * system.capacity + 1 <= system.modulus_product
    for wrong in (0, len(moduli) + 1):
        with raises(AccuracyError, "num-moduli"):
            residue_system(kind, wrong)
    if kind == "2m":  # 239 has no such root
        with raises(AccuracyError, "modulus"):
            make_system(kind, ((239, kind),))


def test_the_first_system_is_the_shortest():
    assert first_system("2m", 153) is None
    for kind in KINDS:
        for longer in all_systems(kind)[1::5]:
            found = first_system(kind, log2_product(longer.moduli) - 1e-9)
            assert found.moduli == longer.moduli


@given(*map(st.integers, (-(2**400), 2, 1, 1), (2**400, 256, 60, 12)))
def test_symmetric_residues_and_balanced_digits(x, p, digit_bits, count):
    r = crt.symmetric_residue(x, p)
    assert (r - x) % p == 0
    assert -(p // 2) <= r <= (p - 1) // 2
    digits = crt.balanced_digits(x, digit_bits, count)
    assert len(digits) == count
    assert sum(d << (t * digit_bits) for t, d in enumerate(digits)) == x
    assert all(abs(d) <= 1 << (digit_bits - 1) for d in digits[:-1])


@given(st.data())
def test_reconstruct_inverts_the_residues(data):
    moduli = data.draw(st.sampled_from([two_m_moduli(), real_moduli()]))
    moduli = moduli[: data.draw(st.integers(1, len(moduli)))]
    m = prod(moduli)
    x = data.draw(st.integers(-(m // 2), (m - 1) // 2))
    assert reconstruct([x % p for p in moduli], moduli) == x
    assert reconstruct([crt.symmetric_residue(x, p) for p in moduli], moduli) == x
    for weight, p in zip(crt.crt_weights(moduli), moduli, strict=True):
        assert weight % p == 1 % p
        assert weight % (m // p) == 0


def multiply_in_residues(system, a, b, modulo):
    """Encode, multiply modulo p and decode, by the formulas of the system alone."""
    (ar, ai), (br, bi) = a, b
    residues = []
    for product in system.products:
        x, y = system.planes[product.left], system.planes[product.right]
        left = modulo(x.re_weight * ar + x.im_weight * ai, product.p)
        right = modulo(y.re_weight * br + y.im_weight * bi, product.p)
        residues.append(modulo(left @ right, product.p))
    totals = [
        sum(w * r for w, r in zip(row, residues, strict=True)) for row in system.weights
    ]
    return [modulo(t, system.modulus_product) for t in totals]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), seed=seeds)
def test_decode_multiply_encode_is_the_exact_product(kind, data, seed):
    system = data.draw(st.sampled_from(all_systems(kind)))
    k = 3
    # |Re c|, |Im c| <= 2 k limit^2 <= capacity; |g|, |h| as well
    limit = int((system.capacity // (2 * k)) ** 0.5 * (1 - 1e-9))
    rng = np.random.default_rng(seed)

    def whole(rows, columns):
        draw = rng.random((rows, columns)) * 2 - 1
        return np.array([[int(t * limit) for t in row] for row in draw], dtype=object)

    modulo = np.frompyfunc(crt.symmetric_residue, 2, 1)
    a, b = [whole(2, k), whole(2, k)], [whole(k, 4), whole(k, 4)]
    if kind == "real":
        a[1], b[1] = 0 * a[1], 0 * b[1]
    found = multiply_in_residues(system, a, b, modulo)
    exact = [a[0] @ b[0] - a[1] @ b[1], a[0] @ b[1] + a[1] @ b[0]]
    for part, expected in zip(found, exact, strict=False):
        assert (part == expected).all()


@cases("kind", KINDS)
def test_products_of_updates_follow_from_their_mirrors(kind):
    system = all_systems(kind)[-1]
    re, im = np.random.default_rng(0).integers(-999, 999, (2, 4, 5))
    planes = [(x.re_weight * re, x.im_weight * im) for x in system.planes]
    left, right = [x + y for x, y in planes], [x - y for x, y in planes]
    products = [left[x.left] @ right[x.right].T for x in system.products]
    for product, found in zip(system.products, products, strict=True):
        mirror = product.mirror
        if mirror is None:
            continue
        source, total = products[mirror.source], 0
        if mirror.other is not None:
            total = mirror.other_weight * products[mirror.other]
        total = total + mirror.straight * source + mirror.transposed * source.T
        assert not ((total - found) % product.p).any()


@cases("kind", KINDS)
def test_weights_of_a_modulus_are_multiples_of_one(kind):
    for system in all_systems(kind):
        m, weights = system.modulus_product, combined_weights(system)
        own = [i for i, x in enumerate(system.kinds) for _ in range(PRODUCTS[x])]
        for part, row in enumerate(system.weights):
            for i, weight in zip(own, row, strict=True):
                assert any((weight - c * weights[i][part]) % m == 0 for c in (-1, 0, 1))


@cases("kind", KINDS)
def test_digit_sums_are_exact_in_float64_and_the_quotient_is_right(kind):
    for system in all_systems(kind):
        b, count = system.digit_bits, system.num_digits
        m = system.modulus_product
        modulus = system.digits(m)
        # Sums of four of them, as fast matrix multiplication forms.
        residues = [4 * (q.p // 2) for q in system.products]
        for row in system.weights:
            digits = [system.digits(w) for w in row]
            sums = [
                sum(abs(d[t]) * r for d, r in zip(digits, residues, strict=True))
                for t in range(count)
            ]
            largest_x = sum(s << (t * b) for t, s in enumerate(sums))
            quotient = largest_x // m + 1
            # Sums, and what is left once the quotient times M is taken off.
            bounds = [s + quotient * abs(d) for s, d in zip(sums, modulus, strict=True)]
            assert max(bounds) + (1 << (b - 1)) < 1 << 53
            # The quotient comes from two digits; each product and the sum round.
            neglected = sum(s << (t * b) for t, s in enumerate(sums[:-2]))
            rounding = Fraction(5 * quotient, 1 << 53)
            margin = Fraction(1, 2) - Fraction(system.capacity, m)
            assert Fraction(neglected, m) + rounding < Fraction(1, 1 << 20) <= margin
        # The balanced digits of M/2 and of every weight fit the digits there are.
        assert abs(modulus[-1]) < 1 << (b - 1)
