"""Decode: within an ulp, exact where it can be, odd, and the same in every engine."""

from fractions import Fraction
from math import frexp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cases import cases, sample
from tests.support.expect import same_bits
from tests.support.pipeline import REFERENCE, SYSTEMS, USUAL, dtype_for
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.moduli import (
    NAN_ROW,
    NONFINITE_ROW,
    available_moduli,
    residue_system,
    symmetric_residue,
)

# Every number of words of 64 bits; each is a kernel to compile on a device.
COUNTS = (1, 2, 5, 6, 8, 12, 16, 20, 26, 31, 38, 44, 49)


def decode(engine, residues, *given, **options):
    """Compare with the reference; what pads rows of residues is not read."""
    count, m, n = residues.shape
    padded = np.full((count, m, -(-n // 16) * 16), 55, np.int8)
    padded[:, :, :n] = residues
    found = engine.decode(padded, *given, **options)
    assert same_bits(found, REFERENCE.decode(residues, *given, **options))
    return found


def decode_integers(engine, values, system, exponent=0, **options):
    """Decode one row of integers, as a real product would leave them."""
    table = [[symmetric_residue(v, q.p) for v in values] for q in system.products]
    residues = np.array(table, np.int8)[:, np.newaxis, :]
    rows, columns = np.zeros(1, np.int32), np.full(len(values), exponent, np.int32)
    given = residues, rows, columns, system, np.float64
    return decode(engine, *given, **options)[..., 0, :]


def integers_of_half_digits(system):
    """List integers whose opposites have a digit of half its base, and the largest."""
    b = system.digit_bits
    # The digits below decide a rounding at 2^(2b-53).
    below = 9 * 2 ** (2 * b - 54) // 10
    half = 1 << (2 * b - 1)
    values = [half + ((2 * t + 1) << (2 * b - 53)) + below for t in range(8)]
    return [*values, 3 * (1 << (b - 1)), half + 1, system.capacity]


@settings(max_examples=60)
@given(data=st.data(), count=st.sampled_from(COUNTS))
def test_decode_is_within_an_ulp_exact_where_it_can_be_and_odd(engine, data, count):
    """By two components for twice as many bits."""
    system = residue_system("real", count)
    # Of some size, and their negatives behind them.
    limit = 1 << data.draw(st.integers(0, system.capacity.bit_length()))
    limit = min(system.capacity, limit)
    values = data.draw(st.lists(st.integers(-limit, limit), min_size=1, max_size=5))
    values += [-x for x in values]
    found = decode_integers(engine, values, system, 3)
    high, low = pair = decode_integers(engine, values, system, 3, components=2)
    half = len(values) // 2
    for x in (found[None], pair):
        assert (x[:, half:] == -x[:, :half]).all()
    assert (high + low == high).all()
    for value, x, hi, lo in zip(values, 8 * found, high, low, strict=True):
        ulp = 2.0 ** (frexp(float(value))[1] - 53)
        assert abs(int(x) - value) <= (0 if abs(value) < 2**53 else ulp)
        # Low parts are sums of terms that fall by 2^-b: one rounding of 2^-53 of 2^-53.
        error = abs(Fraction(hi) * 8 + Fraction(lo) * 8 - value)
        assert error <= (0 if abs(value) < 2**106 else Fraction(abs(value), 2**105))


@pytest.mark.parametrize("count", COUNTS)
def test_digits_of_every_pattern(engine, count):
    """Digits of half their base among them, and both ends of what decodes."""
    system = residue_system("real", count)
    b, half, m = system.digit_bits, 1 << (system.digit_bits - 1), system.capacity
    rng = np.random.default_rng(count)
    choices = np.array([0, 1, -1, half - 1, half, -half, 1 - half, 7], object)
    values = [m, m - 1, min(m, 2**53 + 1), min(m, 2**62 - 1), 1, 0]
    values += [x for x in integers_of_half_digits(system) if x <= m]
    for _ in range(200):
        digits = choices[rng.integers(0, len(choices), system.num_digits)]
        x = sum(int(d) << (t * b) for t, d in enumerate(digits))
        while abs(x) > m:
            x >>= b + 2
        values.append(x)
    for components in (1, 2):
        found, opposite = (
            decode_integers(engine, own, system, components=components)
            for own in (values, [-x for x in values])
        )
        assert (opposite == -found).all()


def test_decode_reaches_every_exponent(engine):
    system = residue_system("real", 16)
    for value, exponent, expected in (
        (1, 1074, 5e-324),
        (3, 1075, 1e-323),  # 1.5 of the smallest, ties to even
        (1, 1075, 0.0),
        (2**100 + 1, 1174, 5e-324),
        (-1, -1023, -(2.0**1023)),
        (1, -1024, np.inf),
        (-(2**60), -1000, -np.inf),
        (7, 2300, 0.0),
        (0, -2300, 0.0),
        (3, 1022, 3 * 2.0**-1022),
    ):
        assert decode_integers(engine, [value], system, exponent)[0] == expected
    system = residue_system("real", 24)
    for exponent in (-1100, 1100, 1000, -950):
        values = [2**120 + 2**50 + 1, 1 - 2**130, 3, 0]
        high, low = decode_integers(engine, values, system, exponent, components=2)
        assert (low[np.isinf(high)] == 0).all()
        with np.errstate(over="ignore"):
            assert (high[2:] == np.ldexp([3.0, 0.0], -exponent)).all()


def test_alpha_brings_back_what_would_overflow(engine):
    system = residue_system("real", 16)
    value, alpha = 3 << 100, 2.0**-1000
    for exponent in (-1000, -1500, -1900):
        (found,) = decode_integers(engine, [value], system, exponent, alpha=alpha)
        assert found == 3 * 2.0 ** (100 - exponent - 1000)
    (found,) = decode_integers(engine, [value], system, -2000, alpha=alpha)
    assert found == np.inf
    system = residue_system("2m", 16)
    residues = np.ones((system.num_products, 1, 1), np.int8)
    zero, far = np.zeros(1, np.int32), np.full(1, -1000, np.int32)
    expected = decode(engine, residues, zero, zero, system, np.complex128)
    alpha = complex(0, 2.0**-1000)
    found = decode(engine, residues, zero, far, system, np.complex128, alpha=alpha)
    assert np.isfinite(found).all()
    assert (found == 1j * expected).all()


# Real ones are the real parts of these.
SCALARS = [(1, 0), (0, 1), (-1, 1), (2.5, -0.3), (1e-300, 1), (1, 1), (2.5, 0), (0, -1)]
SCALARS += [(1, 1j), (0.5 - 2j, -0.3), (0.5 - 2j, 0), (0, 1j)]


@cases("shape", [(5, 260), (1, 1), (9, 2), (70, 5)])
@cases("dtype", DTYPES)
def test_scalars(engine, dtype, shape):
    """With rows of both ends, of no numbers, and C in any layout."""
    kind, (m, n) = "2m" if dtype.startswith("complex") else "real", shape
    system = residue_system(kind, 9)
    rng = np.random.default_rng(0)
    residues = np.empty((system.num_products, m, n), np.int8)
    for q, product in enumerate(system.products):
        low, high = -(product.p // 2), (product.p - 1) // 2
        residues[q] = rng.integers(low, high, (m, n), endpoint=True)
    residues[:, 0, 0] = 0
    rows = np.resize(np.array([0, 1100, -1100, 600, NONFINITE_ROW], np.int32), m)
    columns = np.random.default_rng(3).integers(-30, 30, n).astype(np.int32)
    columns[1:5] = np.resize([-1000, 1000, 500, NAN_ROW], len(columns[1:5]))
    c = random_matrix(m, n, dtype, 4.0)
    c[0, -1], c[-1, 0] = np.inf, np.nan
    layouts = [c, np.asfortranarray(c), np.ascontiguousarray(c[::-1, ::-1])[::-1, ::-1]]
    for place, (alpha, beta) in enumerate(SCALARS):
        if kind == "real":
            alpha, beta = complex(alpha).real, complex(beta).real
        own = layouts[place % 3] if beta else None
        options = {"alpha": alpha, "beta": beta, "c": own}
        found = decode(engine, residues, rows, columns, system, dtype, **options)
        assert found.flags.c_contiguous


@sample("choice", *([x for x in t if x[1] > 1] for t in (SYSTEMS, USUAL)))
def test_the_largest_sums(engine, choice):
    """Residues at their ends that have the signs of the weights, or the other ones."""
    system = residue_system(*choice)
    residues = np.empty((system.num_products, 1, 2 * system.parts), np.int8)
    for q, product in enumerate(system.products):
        signs = [1 if weights[q] > 0 else -1 for weights in system.weights]
        ends = [(product.p - 1) // 2 if t > 0 else -(product.p // 2) for t in signs]
        others = [(product.p - 1) // 2 if t < 0 else -(product.p // 2) for t in signs]
        residues[q, 0] = [*ends, *others]
    rows, columns = np.zeros(1, np.int32), np.zeros(2 * system.parts, np.int32)
    for components in (1, 2):
        args = residues, rows, columns, system, np.dtype(dtype_for(system.method))
        decode(engine, *args, components=components)


@pytest.mark.parametrize(
    "choice",
    [
        *(("2m", n) for n in range(1, len(available_moduli("2m")) + 1)),
        *(choice for choice in SYSTEMS if choice[0] in ("3m", "4m", "hybrid")),
    ],
)
def test_both_ends_of_what_decodes(engine, choice):
    """Where the quotient is nearest to a half."""
    system = residue_system(*choice)
    m = system.capacity
    ends = [m, -m, m - 1, 1 - m, 1, 0]
    values = [(re, im) for re in ends for im in ends]
    table = []  # residues of the products of one row by 1
    for product in system.products:
        left, right = system.planes[product.left], system.planes[product.right]
        weights = [right.re_weight * w for w in (left.re_weight, left.im_weight)]
        own = [weights[0] * re + weights[1] * im for re, im in values]
        table.append([symmetric_residue(x, product.p) for x in own])
    residues = np.array(table, np.int8)[:, np.newaxis, :]
    rows, columns = np.zeros(1, np.int32), np.zeros(len(values), np.int32)
    found = decode(engine, residues, rows, columns, system, np.complex128)
    decode(engine, residues, rows, columns, system, np.complex128, components=2)
    expected = [complex(float(re), float(im)) for re, im in values]
    assert np.allclose(found[0], expected, rtol=2.0**-51, atol=0)
