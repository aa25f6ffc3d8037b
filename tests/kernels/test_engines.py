"""Engines agree in every stage of the contract, and with exact integers."""

import json
from math import frexp
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import DTYPES, LAYOUTS, SHAPES, random_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.tuning import BLOCK
from twom_dist.moduli import (
    NONFINITE_ROW,
    residue_system,
    scaling_rule,
    symmetric_residue,
)

SYSTEMS = (
    *(("2m", 1), ("2m", 2), ("2m", 16), ("2m", 22), ("3m", 1), ("3m", 15), ("3m", 49)),
    *(("4m", 1), ("4m", 11), ("hybrid", 21), ("hybrid", 24), ("hybrid", 42)),
    *(("real", 1), ("real", 8), ("real", 15), ("real", 49)),
)
BEYOND = BLOCK + 3  # tiles are cut into blocks of C, rows into shorter pieces


def same_bits(x: Any, y: Any) -> bool:
    """Compare dtype, shape and every bit."""
    x, y = np.asarray(x), np.asarray(y)
    return (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())


def dtype_for(kind: str) -> str:
    return "float64" if kind == "real" else "complex128"


def run_stages(engine, x, y, system, *, conjugate=False) -> dict[str, np.ndarray]:
    """Every stage of ``X Y^T`` (Y conjugated if asked to), by name."""
    rule = scaling_rule(system, x.shape[1])
    stages: dict[str, np.ndarray] = {}
    encoded = {}
    for side, z in (("left", x), ("right", y)):
        largest = engine.largest_exponents(z)
        sums = engine.square_sums(z, largest, rule.norm_bits)
        exponents = engine.choose_exponents(largest, sums, rule)
        flip = conjugate and side == "right"
        tile = engine.encode(z, exponents, system, side=side, conjugate=flip)
        assert tile.shape == z.shape
        assert tile.nbytes >= len(system.planes) * z.size
        stages |= {f"{side} largest": largest, f"{side} sums": sums}
        stages |= {f"{side} exponents": exponents, f"{side} planes": tile.residues()}
        encoded[side] = tile
    residues = engine.multiply(encoded["left"], encoded["right"], system)
    exponents = stages["left exponents"], stages["right exponents"]
    stages["residues"] = residues
    stages["C"] = engine.decode(residues, *exponents, system, x.dtype)
    return stages


def assert_engines_agree(x, y, system, **options) -> dict[str, np.ndarray]:
    found = run_stages(get_engine("cpu"), x, y, system, **options)
    expected = run_stages(get_engine("reference"), x, y, system, **options)
    for name, value in expected.items():
        assert same_bits(found[name], value), name
    return found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("choice", SYSTEMS)
def test_every_stage_is_equal(choice, shape):
    (kind, count), (m, n, k) = choice, shape
    x = random_matrix(m, k, dtype_for(kind), 1.0, [k, 1])
    y = random_matrix(n, k, dtype_for(kind), 1.0, [k, 2])
    assert_engines_agree(x, y, residue_system(kind, count), conjugate=k % 2 == 0)


@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("method", ["2m", "3m", "4m", "hybrid"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_stage_is_equal_for_every_dtype(dtype, method, conjugate):
    kind = method if dtype.startswith("complex") else "real"
    x, y = random_matrix(4, 9, dtype, 4.0, 1), random_matrix(3, 9, dtype, 4.0, 2)
    x[1], y[0], x[2, 3], y[1, 0] = 0, 0, np.inf, np.nan
    stages = assert_engines_agree(x, y, residue_system(kind, 9), conjugate=conjugate)
    assert (stages["left planes"][:, 1:3] == 0).all()
    assert stages["C"].dtype == dtype


@pytest.mark.parametrize("shape", [(BEYOND, 2, 3), (2, BEYOND, 3), (2, 3, BEYOND)])
@pytest.mark.parametrize("choice", [("2m", 3), ("3m", 2), ("real", 9)])
def test_every_stage_is_equal_beyond_one_block(choice, shape):
    (kind, count), (m, n, k) = choice, shape
    x = random_matrix(m, k, dtype_for(kind), 1.0, 1)
    y = random_matrix(n, k, dtype_for(kind), 1.0, 2)
    assert_engines_agree(x, y, residue_system(kind, count))


@pytest.mark.parametrize(
    "shape", [(BEYOND, 5, 430), (5, BEYOND, 430), (BEYOND, BEYOND, 3), (129, 129, 129)]
)
def test_large_products_are_those_of_int64(shape):
    m, n, k = shape
    engine, system = get_engine("cpu"), residue_system("hybrid", 21)
    x, y = random_matrix(m, k, "complex64", 1.0, 1), random_matrix(n, k, seed=2)
    left = engine.encode(x, np.full(m, 20, np.int32), system, side="left")
    right = engine.encode(y, np.full(n, 20, np.int32), system, side="right")
    found = engine.multiply(left, right, system)
    a, b = left.residues().astype(float), right.residues().astype(float)
    for plane, q in zip(found, system.products, strict=True):
        # Sums of residues are exact in float64.
        exact = (a[q.left] @ b[q.right].T).astype(np.int64)
        assert (plane == (exact + q.p // 2) % q.p - q.p // 2).all()


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_encode_does_not_see_the_layout(layout, side, swap):
    system = residue_system("2m", 3)
    x = random_matrix(6, 11, "complex128", 1.0)
    exponents = np.arange(6, dtype=np.int32) + 3
    reference = get_engine("reference").encode(x, exponents, system, side=side)
    y = LAYOUTS[layout](x.T).T if swap else LAYOUTS[layout](x)
    before = y.tobytes()
    found = get_engine("cpu").encode(y, exponents, system, side=side)
    assert same_bits(found.residues(), reference.residues())
    assert y.tobytes() == before


@pytest.mark.parametrize("choice", [("2m", 16), ("hybrid", 24), ("real", 49)])
def test_ends_of_the_format_are_encoded_exactly(choice):
    dtype = dtype_for(choice[0])
    values = [5e-324, -2.3e-308, 1.0, -1.79e308, 0.0, 3e-310]
    x = np.array([values, [5e-324] * 6, [1e-320, 0, 0, 0, 5e-324, 0]], dtype)
    y = np.array([[5e-324] * 6, [1.79e308] * 6], dtype)
    assert_engines_agree(x, y, residue_system(*choice))


def test_planes_are_symmetric_residues_of_the_quantised_matrix(engine):
    system = residue_system("hybrid", 22)
    x = np.array([[1.5 - 2.5j, 0.5 + 1e9j], [-7 + 3.5j, 2.0**70 - 1j]])
    whole = [[(2, -2), (0, 10**9)], [(-7, 4), (2**70, -1)]]  # ties go to even
    exponents = np.zeros(2, np.int32)
    for sign in (1, -1):
        tile = engine.encode(x, exponents, system, side="left", conjugate=sign < 0)
        for plane, found in zip(system.planes, tile.residues(), strict=True):
            weights = plane.re_weight, sign * plane.im_weight
            expected = [
                [symmetric_residue(weights[0] * re + weights[1] * im, plane.p)]
                for row in whole
                for re, im in row
            ]
            assert found.reshape(-1, 1).tolist() == expected


def test_panels_accumulate_to_the_whole_product(engine):
    system = residue_system("3m", 5)
    x, y = random_matrix(3, 14, seed=1), random_matrix(5, 14, seed=2)
    rows, columns = np.full(3, 9, np.int32), np.full(5, 8, np.int32)

    def tiles(piece: slice):
        left = engine.encode(x[:, piece], rows, system, side="left")
        return left, engine.encode(y[:, piece], columns, system, side="right")

    whole = engine.multiply(*tiles(slice(None)), system)
    into = engine.multiply(*tiles(slice(0, 6)), system)
    for piece in (slice(6, 7), slice(7, 14)):
        assert engine.multiply(*tiles(piece), system, into=into) is into
    assert same_bits(into, whole)


@pytest.mark.parametrize("shape", [(40, 40, 0), (0, 3, 2), (3, 0, 2), (0, 0, 0)])
def test_empty_tiles_multiply_to_zeros(engine, shape):
    m, n, k = shape
    system = residue_system("2m", 16)
    x, y = np.zeros((m, k), complex), np.zeros((n, k), complex)
    rows, columns = np.zeros(m, np.int32), np.zeros(n, np.int32)
    left = engine.encode(x, rows, system, side="left")
    right = engine.encode(y, columns, system, side="right")
    for _ in range(5):
        junk = np.full((system.num_products, m, n), 77, np.int8)
        del junk  # so that memory that nobody clears is not zero by chance
        residues = engine.multiply(left, right, system)
        assert residues.shape == (system.num_products, m, n)
        assert not residues.any()


@pytest.mark.parametrize("rows", [3, 16])
@pytest.mark.parametrize("choice", [("real", 1), ("2m", 1)])
@pytest.mark.parametrize("k", [2**16 + 1, 2**17 + 3])
def test_long_k_against_int64(choice, k, rows):
    engine, system = get_engine("cpu"), residue_system(*choice)
    p, low = system.moduli[0], -(system.moduli[0] // 2)
    rng = np.random.default_rng(k)
    x, y = rng.integers(low, -low, (2, rows, k)).astype(float)
    # Sums of one sign are the largest there are; -1 is p - 1 where it is unsigned.
    x[0], x[1], y[0], y[1] = low, -1, low, -low - 1
    exponents = np.zeros(rows, np.int32)
    left = engine.encode(x + 0j, exponents, system, side="left")
    right = engine.encode(y + 0j, exponents, system, side="right")
    found = engine.multiply(left, right, system)
    exact = (x @ y.T).astype(np.int64)  # below 2^53
    expected = (exact + p // 2) % p - p // 2
    assert all((plane == expected).all() for plane in found)


def test_large_sums_of_every_residue_are_reduced():
    """Sums up to 255 * 120 * 2^16, in every residue class."""
    engine, system = get_engine("cpu"), residue_system("real", 5)
    k, n = 2**16, 256
    x, y = np.full((1, k), -1, np.float32), np.full((n, k), 120, np.float32)
    for j in range(n):
        y[j, :j] -= 1
    left = engine.encode(x, np.zeros(1, np.int32), system, side="left")
    right = engine.encode(y, np.zeros(n, np.int32), system, side="right")
    found = engine.multiply(left, right, system)
    exact = np.arange(n) - 120 * k
    for plane, p in zip(found, system.moduli, strict=True):
        assert (plane[0] == (exact + p // 2) % p - p // 2).all()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_nothing(threads):
    engine, system = get_engine("cpu"), residue_system("2m", 3)
    x, y = random_matrix(600, 40, seed=1), random_matrix(530, 40, seed=2)
    with dask.config.set({"twom-dist.threads": 3}):
        expected = run_stages(engine, x, y, system)
    with dask.config.set({"twom-dist.threads": threads}):
        found = run_stages(engine, x, y, system)
    assert all(same_bits(found[name], expected[name]) for name in expected)


RECORDED = json.loads(
    (Path(__file__).parents[1] / "data" / "recorded_products.json").read_text()
)


def parts(rows: list[list[str]]) -> np.ndarray:
    """Read hexadecimal floats, the parts of an entry one after the other."""
    return np.array([[float.fromhex(t) for t in row] for row in rows])


@pytest.mark.parametrize("case", RECORDED, ids=lambda c: f"{c['method']}-{c['N']}")
def test_recorded_products(engine, case):
    """The bits of earlier versions; the exact errors were checked when recorded."""
    a, b, c = (parts(case[name]) for name in "ABC")
    kind = np.float64 if case["method"] == "real" else np.complex128
    x, y = a.view(kind), np.ascontiguousarray(b.view(kind).T)
    stages = run_stages(engine, x, y, residue_system(case["method"], case["N"]))
    assert stages["left exponents"].tolist() == case["rows"]
    assert stages["right exponents"].tolist() == case["columns"]
    assert stages["residues"][:, 0, 0].tolist() == case["residues"]
    assert same_bits(stages["C"].view(float), c)


# --- decode -----------------------------------------------------------------------


def residues_of(values: list[int], system) -> np.ndarray:
    """Residues of one row of integers, as a real product would leave them."""
    table = [[symmetric_residue(v, q.p) for v in values] for q in system.products]
    return np.array(table, np.int8)[:, np.newaxis, :]


def decode_integers(engine, values, system, exponent=0, **options) -> np.ndarray:
    residues = residues_of(values, system)
    columns = np.full(len(values), exponent, np.int32)
    rows = np.zeros(1, np.int32)
    return engine.decode(residues, rows, columns, system, np.float64, **options)[0]


@settings(max_examples=60)
@given(data=st.data(), count=st.integers(1, 49))
def test_decode_is_within_an_ulp_and_exact_where_it_can_be(data, count):
    system = residue_system("real", count)
    bits = data.draw(st.integers(0, system.capacity.bit_length()))
    limit = min(system.capacity, 1 << bits)
    values = data.draw(st.lists(st.integers(-limit, limit), min_size=1, max_size=5))
    found = decode_integers(get_engine("cpu"), values, system)
    assert same_bits(found, decode_integers(get_engine("reference"), values, system))
    for value, x in zip(values, found.tolist(), strict=True):
        ulp = 2.0 ** (frexp(float(value))[1] - 53)
        assert abs(int(x) - value) <= (0 if abs(value) < 2**53 else ulp)


@pytest.mark.parametrize("count", [12, 16, 49])
def test_decode_is_odd_even_where_a_digit_is_half_its_base(engine, count):
    system = residue_system("real", count)
    b = system.digit_bits
    # The second digit is ±2^(b-1); those below decide a rounding at 2^(2b-53).
    below = 9 * 2 ** (2 * b - 54) // 10
    values = [
        (1 << (2 * b - 1)) + ((2 * t + 1) << (2 * b - 53)) + below for t in range(8)
    ]
    values += [3 * (1 << (b - 1)), (1 << (2 * b - 1)) + 1, system.capacity]
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


@pytest.mark.parametrize("beta", [0, 1, -0.3, 1j])
@pytest.mark.parametrize("alpha", [1, 0, -1, 2.5, 1e-300, 0.5 - 2j])
@pytest.mark.parametrize("dtype", DTYPES)
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


# --- accurate scaling -------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_magnitudes_and_their_bounds_are_equal(dtype):
    x, y = random_matrix(4, 9, dtype, 4.0, 1), random_matrix(3, 9, dtype, 4.0, 2)
    x[1], x[2, 3], y[1, 0], x[3, 1] = 0, np.nan, np.inf, np.finfo(dtype).tiny
    below_one = np.nextafter(x.real.dtype.type(1), 0)
    x[0, :3] = below_one * (1 + 1j) if "complex" in dtype else below_one
    found = {}
    for name in ("cpu", "reference"):
        engine = get_engine(name)
        largest = engine.largest_exponents(x), engine.largest_exponents(y)
        left = engine.magnitudes(x, largest[0], side="left")
        right = engine.magnitudes(y, largest[1], side="right")
        planes = [p if p.shape[1] == 9 else p.T for p in (left, right)]
        maxima = engine.bound_maxima([(left, right)])
        found[name] = [p.astype(np.int64) for p in (*planes, *maxima)]
    assert all(map(same_bits, found["cpu"], found["reference"]))
    left, right, row_maxima, column_maxima = found["cpu"]
    assert max(left.max(), right.max()) <= 91
    assert not left[1:3].any()
    assert left[3, 1] == 1
    assert (row_maxima == (left @ right.T).max(axis=1)).all()
    assert (column_maxima == (left @ right.T).max(axis=0)).all()
