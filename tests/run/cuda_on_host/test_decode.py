"""The decode kernel against the reference."""

from fractions import Fraction

import numpy as np
import pytest

from tests.support.cases import cases, sample
from tests.support.integers import integers_of_half_digits
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda.tables import decode_constants, decode_table
from twom_dist.moduli import (
    NAN_ROW,
    NONFINITE_ROW,
    available_moduli,
    residue_system,
    symmetric_residue,
)

REFERENCE = get_engine("reference")

SYSTEMS = (
    *(("2m", 1), ("2m", 2), ("2m", 8), ("2m", 16), ("2m", 17), ("2m", 22)),
    *(("3m", 1), ("3m", 15), ("3m", 16), ("3m", 30), ("3m", 49)),
    *(("4m", 11), ("4m", 20), ("4m", 49), ("hybrid", 22), ("hybrid", 49)),
    *(("eisenstein", n) for n in (1, 2, 8, 16, 17, 23)),
    *(("real", 1), ("real", 8), ("real", 15), ("real", 30), ("real", 49)),
)

# One word and more, every kind, and the ends.
USUAL = (
    *(("2m", 1), ("2m", 16), ("2m", 22), ("3m", 15), ("3m", 49), ("4m", 20)),
    *(("hybrid", 49), ("eisenstein", 16), ("eisenstein", 23)),
    *(("real", 1), ("real", 15), ("real", 49)),
)


def equal_bits(x: np.ndarray, y: np.ndarray) -> bool:
    """Compare bit for bit."""
    assert (x.dtype, x.shape) == (y.dtype, y.shape)
    return x.tobytes() == y.tobytes()


def random_residues(system, m, n, seed=0) -> np.ndarray:
    """Residues of random integers below the capacity, and of its ends."""
    rng = np.random.default_rng(seed)
    residues = np.empty((system.num_products, m, n), np.int8)
    for q, product in enumerate(system.products):
        low, high = -(product.p // 2), (product.p - 1) // 2
        residues[q] = rng.integers(low, high, (m, n), endpoint=True)
    residues[:, 0, 0] = 0
    return residues


@sample("choice", SYSTEMS, USUAL)
def test_tiles_of_every_system(calls, choice):
    system = residue_system(*choice)
    dtype = np.float64 if choice[0] == "real" else np.complex128
    for m, n in ((3, 16), (5, 7), (2, 33)):
        residues = random_residues(system, m, n, n)
        rows, columns = np.arange(m, dtype=np.int32), np.arange(n, dtype=np.int32) - 9
        for blocks, pad in ((1, 0), (2, 3)):
            args = residues, rows, columns, system, dtype
            for words in (1, 2):
                options = {"blocks": blocks, "pad": pad, "words": words}
                found = calls.decode(*args, **options)
                assert equal_bits(found, REFERENCE.decode(*args, words=words))


@sample("choice", *([x for x in t if x[1] > 1] for t in (SYSTEMS, USUAL)))
def test_the_largest_sums(calls, choice):
    """Residues at their ends that have the signs of the weights, or the other ones."""
    system = residue_system(*choice)
    dtype = np.float64 if choice[0] == "real" else np.complex128
    residues = np.empty((system.num_products, 1, 2 * system.parts), np.int8)
    for q, product in enumerate(system.products):
        signs = [1 if weights[q] > 0 else -1 for weights in system.weights]
        ends = [(product.p - 1) // 2 if t > 0 else -(product.p // 2) for t in signs]
        others = [(product.p - 1) // 2 if t < 0 else -(product.p // 2) for t in signs]
        residues[q, 0] = [*ends, *others]
    rows, columns = np.zeros(1, np.int32), np.zeros(2 * system.parts, np.int32)
    args = residues, rows, columns, system, dtype
    for words in (1, 2):
        found = calls.decode(*args, words=words)
        assert equal_bits(found, REFERENCE.decode(*args, words=words))


def residues_of_parts(values: list[tuple[int, int]], system) -> np.ndarray:
    """Residues of the products of one row by 1."""
    table = []
    for product in system.products:
        left, right = system.planes[product.left], system.planes[product.right]
        weights = [right.re_weight * w for w in (left.re_weight, left.im_weight)]
        own = [weights[0] * re + weights[1] * im for re, im in values]
        table.append([symmetric_residue(x, product.p) for x in own])
    return np.array(table, np.int8)[:, np.newaxis, :]


@pytest.mark.parametrize(
    "choice",
    [
        *(("2m", n) for n in range(1, len(available_moduli("2m")) + 1)),
        *(choice for choice in SYSTEMS if choice[0] in ("3m", "4m", "hybrid")),
    ],
)
def test_both_ends_of_what_decodes(calls, choice):
    """Where the quotient is nearest to a half."""
    system = residue_system(*choice)
    m = system.capacity
    ends = [m, -m, m - 1, 1 - m, 1, 0]
    values = [(re, im) for re in ends for im in ends]
    residues = residues_of_parts(values, system)
    rows, columns = np.zeros(1, np.int32), np.zeros(len(values), np.int32)
    args = residues, rows, columns, system, np.complex128
    found = calls.decode(*args)
    assert equal_bits(found, REFERENCE.decode(*args))
    expected = [complex(float(re), float(im)) for re, im in values]
    assert np.allclose(found[0], expected, rtol=2.0**-51, atol=0)


@cases("shape", [(1, 1), (1, 3), (9, 2), (4, 68), (70, 5), (17, 130)])
@cases("dtype", DTYPES)
def test_tiles_of_every_shape(calls, dtype, shape):
    system = residue_system("2m" if dtype.startswith("complex") else "real", 8)
    m, n = shape
    residues = random_residues(system, m, n, m)
    rows, columns = np.full(m, 3, np.int32), np.full(n, -40, np.int32)
    rows[-1] = NAN_ROW
    found = calls.decode(residues, rows, columns, system, dtype, pad=n % 3)
    assert equal_bits(found, REFERENCE.decode(residues, rows, columns, system, dtype))


@cases("beta", [0, 1, -0.3, 1j])
@cases("alpha", [1, 0, -1, 2.5, 1e-300, 0.5 - 2j])
@cases("dtype", DTYPES)
def test_scalars_give_the_same_bits(calls, dtype, alpha, beta):
    kind = "2m" if dtype.startswith("complex") else "real"
    if kind == "real":
        alpha, beta = complex(alpha).real, complex(beta).real
    system = residue_system(kind, 9)
    residues = random_residues(system, 5, 27)
    rows = np.array([0, 1100, -1100, 600, NONFINITE_ROW], np.int32)
    columns = np.arange(-13, 14, dtype=np.int32)
    columns[:4] = [-1000, 1000, 500, NONFINITE_ROW]
    c = random_matrix(5, 27, dtype, 4.0)
    c[0, 5], c[1, 6] = np.inf, np.nan
    for own in (
        c,
        np.asfortranarray(c),
        np.ascontiguousarray(c[::-1, ::-1])[::-1, ::-1],
    ):
        options = {"alpha": alpha, "beta": beta, "c": None if beta == 0 else own}
        found = calls.decode(residues, rows, columns, system, dtype, **options)
        expected = REFERENCE.decode(residues, rows, columns, system, dtype, **options)
        assert equal_bits(found, expected)


def residues_of(values: list[int], system) -> np.ndarray:
    table = [[symmetric_residue(v, q.p) for v in values] for q in system.products]
    return np.array(table, np.int8)[:, np.newaxis, :]


def assert_integers_agree(calls, values, system, exponent=0) -> np.ndarray:
    residues = residues_of(values, system)
    rows, columns = np.zeros(1, np.int32), np.full(len(values), exponent, np.int32)
    args = residues, rows, columns, system, np.float64
    for words in (2, 1):
        found = calls.decode(*args, words=words)
        assert equal_bits(found, REFERENCE.decode(*args, words=words))
    return found[0]


@pytest.mark.parametrize("count", [1, 2, 5, 6, 8, 12, 16, 20, 26, 31, 38, 44, 49])
def test_digits_of_every_pattern(calls, count):
    """Digits of half their base among them, and both ends of what decodes."""
    system = residue_system("real", count)
    b, half, m = system.digit_bits, 1 << (system.digit_bits - 1), system.capacity
    rng = np.random.default_rng(count)
    choices = np.array([0, 1, -1, half - 1, half, -half, 1 - half, 7], object)
    values = [0, 1, -1, m, -m, m - 1, min(m, 2**53 + 1), min(m, 2**62 - 1)]
    for _ in range(200):
        digits = choices[rng.integers(0, len(choices), system.num_digits)]
        x = sum(int(d) << (t * b) for t, d in enumerate(digits))
        while abs(x) > m:
            x >>= b + 2
        values += [x, -x]
    found = assert_integers_agree(calls, values, system)
    assert (found[8::2] == -found[9::2]).all()


@pytest.mark.parametrize("count", [12, 16, 49])
def test_decode_is_odd_even_where_a_digit_is_half_its_base(calls, count):
    system = residue_system("real", count)
    values = integers_of_half_digits(system)
    opposite = assert_integers_agree(calls, [-x for x in values], system)
    assert (opposite == -assert_integers_agree(calls, values, system)).all()


def test_every_exponent_is_reached(calls):
    system = residue_system("real", 16)
    for exponent in (1074, 1075, 1174, -1023, -1024, -1000, 2300, -2300, 1022, 0):
        values = [1, 3, 2**100 + 1, -1, 2**60, -(2**60), 7, 0]
        assert_integers_agree(calls, values, system, exponent)


METHODS = ("2m", "3m", "4m", "hybrid", "eisenstein", "real")


@pytest.mark.parametrize("method", METHODS)
def test_quotients_of_integers_are_near_enough(method):
    """The bounds that digits.cuh counts on, for every system."""
    for count in range(1, len(available_moduli(method)) + 1):
        system = residue_system(method, count)
        m, b, digits = system.modulus_product, system.digit_bits, system.num_digits
        shift, place = dict(decode_constants(system).numbers)["TOP_SHIFT"], digits - 1
        assert 37 <= b <= 45
        assert 64 * system.num_products <= 1 << (51 - b)
        assert m >= Fraction(2) ** (place * b - 1)
        unit = Fraction(2) ** (place * b - shift)
        assert 1 << 44 <= m / unit < 1 << 45
        factor = Fraction(decode_table(system)[digits + 2])
        assert factor.denominator == 1
        assert factor <= 1 << 62
        largest = (1 << (51 - b)) + (1 << (52 - b))  # quotient and LIFT
        wrong = largest * abs(factor / (unit * 2**106 / m) - 1) + Fraction(1, 1 << 42)
        if digits > 1:
            wrong += unit / m
            below = sum(Fraction(1 << 52) * (1 << t * b) for t in range(digits - 2))
            wrong += below / m
        assert wrong < Fraction(1, 1 << 20)
        assert m / Fraction(2) - system.capacity >= m * Fraction(1, 1 << 20)


@pytest.mark.parametrize("method", METHODS)
def test_every_sum_of_digits_is_exact(method):
    """Sums of combined residues, with 2^52 the bound that quotients count on."""
    bounds = {"2m": (2, 2), "3m": (2, 3), "4m": (2, 2), "real": (1,)}
    bounds["eisenstein"] = bounds["2m"]
    for count in range(1, len(available_moduli(method)) + 1):
        system = residue_system(method, count)
        table = decode_table(system)
        shape = (system.num_moduli, system.num_digits, system.parts)
        weights = np.abs(table[system.num_digits + 3 :].reshape(shape))
        residues = [bounds[kind] for kind in system.kinds]
        largest = np.array(residues) * (np.array(system.moduli) // 2)[:, np.newaxis]
        sums = (weights * largest[:, np.newaxis, :]).sum(axis=0)
        assert sums.max() < 2.0**52
        # The bias of the combined residues.
        assert largest.max() <= 512
