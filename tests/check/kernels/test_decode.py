"""Decode: within an ulp, exact where it can be, odd, and the same in every engine."""

from fractions import Fraction
from math import frexp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.assembly import assemble, find_loops
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.integers import integers_of_half_digits
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.decode import sums
from twom_dist.moduli import NONFINITE_ROW, residue_system, symmetric_residue


def residues_of(values: list[int], system) -> np.ndarray:
    """Residues of one row of integers, as a real product would leave them."""
    table = [[symmetric_residue(v, q.p) for v in values] for q in system.products]
    return np.array(table, np.int8)[:, np.newaxis, :]


def decode_integers(engine, values, system, exponent=0, **options) -> np.ndarray:
    residues = residues_of(values, system)
    columns = np.full(len(values), exponent, np.int32)
    rows = np.zeros(1, np.int32)
    return engine.decode(residues, rows, columns, system, np.float64, **options)[0]


def draw_values(data, system) -> list[int]:
    """Draw integers of some size that decode."""
    bits = data.draw(st.integers(0, system.capacity.bit_length()))
    limit = min(system.capacity, 1 << bits)
    return data.draw(st.lists(st.integers(-limit, limit), min_size=1, max_size=5))


@settings(max_examples=60)
@given(data=st.data(), count=st.integers(1, 49))
def test_decode_is_within_an_ulp_and_exact_where_it_can_be(data, count):
    system = residue_system("real", count)
    values = draw_values(data, system)
    found = decode_integers(get_engine("cpu"), values, system)
    assert same_bits(found, decode_integers(get_engine("reference"), values, system))
    for value, x in zip(values, found.tolist(), strict=True):
        ulp = 2.0 ** (frexp(float(value))[1] - 53)
        assert abs(int(x) - value) <= (0 if abs(value) < 2**53 else ulp)


@pytest.mark.parametrize("count", [12, 16, 49])
def test_decode_is_odd_even_where_a_digit_is_half_its_base(engine, count):
    system = residue_system("real", count)
    values = integers_of_half_digits(system)
    positive = decode_integers(engine, values, system)
    assert (decode_integers(engine, [-v for v in values], system) == -positive).all()


@settings(max_examples=60)
@given(data=st.data(), count=st.integers(12, 49))
def test_decode_is_odd_and_equal_for_every_pattern_of_digits(data, count):
    system = residue_system("real", count)
    b, half = system.digit_bits, 1 << (system.digit_bits - 1)
    digit = st.sampled_from([0, 1, -1, half - 1, half, -half, 1 - half])
    digit |= st.integers(-half, half)
    patterns = st.lists(digit, min_size=2, max_size=system.num_digits)
    values = []
    for digits in data.draw(st.lists(patterns, min_size=1, max_size=6)):
        x = sum(d << (t * b) for t, d in enumerate(digits))
        values.append(x if abs(x) <= system.capacity else x >> (b + 2))
    found = decode_integers(get_engine("cpu"), values + [-v for v in values], system)
    assert (found[len(values) :] == -found[: len(values)]).all()
    reference = decode_integers(get_engine("reference"), values, system)
    assert same_bits(found[: len(values)], reference)


@settings(max_examples=60)
@given(data=st.data(), count=st.integers(1, 49))
def test_two_words_hold_twice_the_bits(data, count):
    system = residue_system("real", count)
    values = draw_values(data, system)
    values += [-v for v in values]
    args = residues_of(values, system), np.zeros(1, np.int32)
    args += np.full(len(values), 3, np.int32), system, np.float64
    pair = get_engine("cpu").decode(*args, words=2)
    assert same_bits(pair, get_engine("reference").decode(*args, words=2))
    (high,), (low,) = pair
    assert (high + low == high).all()
    half = len(values) // 2
    assert (pair[..., half:] == -pair[..., :half]).all()
    for value, hi, lo in zip(values, high, low, strict=True):
        # Low words are sums of terms that fall by 2^-b: one rounding of 2^-53 of 2^-53.
        error = abs(Fraction(hi) * 8 + Fraction(lo) * 8 - value)
        assert error <= (0 if abs(value) < 2**106 else Fraction(abs(value), 2**105))


@pytest.mark.parametrize("exponent", [-1100, 1100, 1000, -950])
def test_two_words_at_the_ends_of_the_format(engine, exponent):
    system = residue_system("real", 24)
    values = [2**120 + 2**50 + 1, 1 - 2**130, 3, 0]
    residues = residues_of(values, system)
    args = np.full(1, exponent, np.int32), np.zeros(4, np.int32), system, np.float64
    pair = engine.decode(residues, *args, words=2)
    assert same_bits(pair, get_engine("reference").decode(residues, *args, words=2))
    (high,), (low,) = pair
    assert (low[np.isinf(high)] == 0).all()
    with np.errstate(over="ignore"):
        assert (high[2:] == np.ldexp([3.0, 0.0], -exponent)).all()


@cases("beta", [0, 1, -0.3, 1j])
@cases("alpha", [1, 0, -1, 2.5, 1e-300, 0.5 - 2j])
@cases("dtype", DTYPES)
def test_scalars_give_the_same_bits(dtype, alpha, beta):
    kind = "2m" if dtype.startswith("complex") else "real"
    if kind == "real":
        alpha, beta = complex(alpha).real, complex(beta).real
    system = residue_system(kind, 9)
    rng = np.random.default_rng(3)
    # All moduli of these systems hold residues up to 78.
    residues = rng.integers(-78, 79, (system.num_products, 5, 260), dtype=np.int8)
    rows = np.array([0, 1100, -1100, 600, NONFINITE_ROW], np.int32)
    columns = rng.integers(-30, 30, 260).astype(np.int32)
    columns[:4] = [-1000, 1000, 500, NONFINITE_ROW]
    c = random_matrix(5, 260, dtype, 4.0)
    c[0, 5], c[1, 6] = np.inf, np.nan
    options = {"alpha": alpha, "beta": beta, "c": None if beta == 0 else c}
    found, expected = (
        get_engine(name).decode(residues, rows, columns, system, dtype, **options)
        for name in ("cpu", "reference")
    )
    assert found.flags.c_contiguous
    assert same_bits(found, expected)


@cases("method", ["real", "2m", "3m", "4m", "hybrid", "eisenstein"])
@cases("n", [1, 13, 256, 300])
def test_what_rows_of_residues_are_padded_with_is_not_read(method, n):
    system = residue_system(method, 17)
    rng = np.random.default_rng(n)
    padded = rng.integers(-60, 61, (system.num_products, 3, n + 19), dtype=np.int8)
    rows = np.array([0, 3, -2000], np.int32)
    columns = rng.integers(-30, 30, n).astype(np.int32)
    dtype = np.float64 if method == "real" else np.complex128
    args = rows, columns, system, dtype
    cut = np.ascontiguousarray(padded[:, :, :n])
    expected = get_engine("reference").decode(cut, *args)
    assert same_bits(get_engine("cpu").decode(padded, *args), expected)


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
    ):
        assert decode_integers(engine, [value], system, exponent)[0] == expected


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
    at = [np.zeros(1, np.int32), np.full(1, -1000, np.int32), system, np.complex128]
    expected = engine.decode(residues, at[0], at[0], *at[2:])
    found = engine.decode(residues, *at, alpha=complex(0, 2.0**-1000))
    assert np.isfinite(found).all()
    assert (found == 1j * expected).all()


@pytest.mark.parametrize(
    ("cpu", "features"), [("sapphirerapids", {"avx512f"}), ("haswell", set())]
)
def test_sums_stay_in_registers(monkeypatch, cpu, features):
    """Each vector is loaded and converted by one instruction, and never spilt."""
    monkeypatch.setattr(sums, "find_features", lambda: frozenset(features))
    lines = assemble(sums._sum_three, cpu)
    assert not any("mm" in line and "rsp" in line for line in lines)
    for loop in find_loops(lines):
        names = [line.split()[0] for line in loop if not line.endswith(":")]
        moduli = names.count("vbroadcastsd") // 3
        assert moduli > 0
        assert sum(name.startswith("vfmadd") for name in names) == 6 * moduli
        assert names.count("vcvtdq2pd") == 2 * moduli
        assert not any("pmovsx" in name for name in names)
