"""Encode: planes of residues of scaled and rounded rows, the same in every engine."""

from itertools import product
from math import isqrt

import numpy as np

from tests.support.cases import cases, sample
from tests.support.cuda.operands import LAYOUTS, OPERAND_SHAPES, extreme_matrix
from tests.support.expect import same_bits
from tests.support.pipeline import REFERENCE, SYSTEMS, USUAL, dtype_for, residues_of
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.kernels.reference.rounding import shift_columns
from twom_dist.moduli import (
    NAN_ROW,
    NONFINITE_ROW,
    available_moduli,
    norm_bits,
    residue_system,
    scaling_rule,
    symmetric_residue,
)

EVERY = [
    (method, count)
    for method in ("2m", "3m", "hybrid", "real")
    for count in range(1, len(available_moduli(method)) + 1)
]


def assert_planes_agree(engine, x, exponents, system, **options):
    """Encode, compare with the reference, and see that the matrix is as it was."""
    before = x.tobytes()
    found = residues_of(engine.encode(x, exponents, system, **options))
    assert x.tobytes() == before
    expected = residues_of(REFERENCE.encode(x, exponents, system, **options))
    assert (found == expected).all()
    return found


@sample("choice", SYSTEMS, USUAL)
def test_planes_of_every_system(engine, choice):
    """Rows of zeros and with a NaN; more columns than a strip has; shifted columns."""
    system, rng = residue_system(*choice), np.random.default_rng(1)
    longest = (1, 2100) if choice[1] < 9 else (5, 600)
    for rows, k, single in ((9, 23, True), (*longest, False)):
        x = random_matrix(rows, k, dtype_for(choice[0], single), 3.0, k)
        x[rows // 2, ::2] = 0
        # Nearly all the bits that there are.
        most = np.int32(system.part_bits - 2)
        exponents = most - REFERENCE.measure(x, 20).largest
        shifts = rng.integers(-3, 4, k).astype(np.int32)
        assert_planes_agree(engine, x, exponents - 3, system, shifts=shifts)
        x[-1, -1], exponents[-1] = np.nan, NONFINITE_ROW
        for own in (x, np.asfortranarray(x)):
            assert_planes_agree(engine, own, exponents, system)
        assert_planes_agree(engine, x, exponents, system, conjugate=True)


ROWS, K = 21, 70


def make_shifted(dtype):
    x = random_matrix(ROWS, K, dtype, 1.0, 3)
    info = np.finfo(dtype)
    x[1, 2], x[2, 3], x[4] = np.nan, -np.inf, 0
    # Grows from a subnormal number; overflows beside an Inf.
    x[3, 5], x[2, 60] = info.smallest_subnormal, info.max
    shifts = np.arange(K, dtype=np.int32) * 2 - 60
    shifts[5], shifts[60] = 60, 60
    # From either end of the numbers, as far as any shift may be.
    x[:, 7:10], most = 0, info.maxexp - 8
    x[5:7, 7], shifts[7] = (info.max, -info.max), -most
    x[6:9, 8] = info.smallest_subnormal, -info.smallest_subnormal, info.tiny
    x[9, 9], shifts[8:10] = -0.0, most
    return x, shifts


def find_stages(engine, x, shifts, methods):
    """Find what each stage makes of rows whose columns are shifted."""
    given = {} if shifts is None else {"shifts": shifts}
    asks = ("squares", "totals", "octaves")
    known = engine.measure(x, norm_bits(K), asks, **given)
    largest, sums = known[:2]
    one = engine.measure(x, norm_bits(K), ("squares",), largest=largest, **given)
    octaves = engine.octaves(x, largest, **given)
    found = {"largest": largest, "sums": one.squares, "octaves": octaves}
    found |= {"squares": sums, "totals": known.totals, "counts": known.octaves}
    for method, count in methods:
        system = residue_system(method, count)
        rule = scaling_rule(system, K)
        assert rule is not None
        e = engine.choose_exponents(largest, sums, rule)
        for conjugate in (False, True):
            encoded = engine.encode(x, e, system, conjugate=conjugate, **given)
            found[f"planes of {method}, {conjugate}"] = residues_of(encoded)
    return found


@cases("dtype", DTYPES)
def test_shifts_are_exact_in_every_stage(engine, dtype):
    """Compare with a matrix that was shifted before, stage by stage and bit by bit."""
    x, shifts = make_shifted(dtype)
    real = np.dtype(dtype).kind == "f"
    methods = [("real", 9)] if real else [("2m", 8), ("3m", 5)]
    with np.errstate(over="ignore"):
        scaled = shift_columns(x, shifts)
    expected = find_stages(REFERENCE, scaled, None, methods)
    for name, layout in LAYOUTS.items():
        found = find_stages(engine, layout(x), shifts, methods)
        for stage, value in expected.items():
            assert same_bits(found[stage], value), (name, stage)


@sample("choice", EVERY, [x for x in EVERY if x in SYSTEMS])
def test_the_largest_entries_and_ties_are_encoded_exactly(engine, choice):
    """Norms up to the square root of the capacity, in each number of words."""
    system = residue_system(*choice)
    radius = isqrt(system.capacity)
    two, top = 2.0 ** (radius.bit_length() - 1), np.nextafter(float(radius), 0)
    step = max(1.0, two / 2**52)
    values = [two, -two, two - step, two // 2 + step, -step, 0.5, -1.5, 2.5, 2.0**-1074]
    values += [0.49999999999999994, top, -top, 0.7 * top, top * 2.0**-30, top / 2 + 1]
    x = np.array([values])
    if choice[0] != "real":
        inside = x[:, -5:]
        turned = 1j * x, (0.6 + 0.7j) * inside, (0.8 - 0.5j) * inside
        x = np.concatenate([x, x[:, :10] * (0.5 + 0.5j), *turned], axis=1)
    assert_planes_agree(engine, x, np.zeros(1, np.int32), system)


def test_planes_are_symmetric_residues_of_the_quantised_matrix(engine):
    system = residue_system("hybrid", 22)
    x = np.array([[1.5 - 2.5j, 0.5 + 1e9j], [-7 + 3.5j, 2.0**70 - 1j]])
    whole = [[(2, -2), (0, 10**9)], [(-7, 4), (2**70, -1)]]  # ties go to even
    exponents = np.zeros(2, np.int32)
    for sign in (1, -1):
        found = residues_of(engine.encode(x, exponents, system, conjugate=sign < 0))
        for plane, own in zip(system.planes, found, strict=True):
            re, im = plane.re_weight, sign * plane.im_weight
            expected = [
                [symmetric_residue(re * a + im * b, plane.p) for a, b in row]
                for row in whole
            ]
            assert own.tolist() == expected


@cases("shape", OPERAND_SHAPES)
def test_planes_of_every_shape(engine, shape):
    x = random_matrix(*shape, "complex128", 1.0, list(shape))
    exponents = np.arange(shape[0], dtype=np.int32) % 60 - 20
    exponents[::5], exponents[1::5] = NONFINITE_ROW, NAN_ROW
    assert_planes_agree(engine, x, exponents, residue_system("hybrid", 22))


@cases("dtype", DTYPES)
def test_a_fingerprint_tells_every_change(engine, dtype):
    x = random_matrix(13, 40, dtype)
    variants = [x, -x, 2 * x, x[::-1], x[:, ::-1], np.roll(x, 1, axis=1), 0 * x]
    for i, j in ((0, 0), (5, 17), (12, 39)):
        for value in (np.nextafter(x[i, j].real, 1), -x[i, j], 0, np.inf):
            variants.append(x.copy())
            variants[-1][i, j] = value
    variants.append(x.copy())
    variants[-1][[0, 1], [3, 8]] = x[[1, 0], [8, 3]]
    rng = np.random.default_rng(5)  # signs of two entries do not cancel
    for pair in {
        tuple(sorted(rng.choice(x.size, 2, replace=False))) for _ in range(99)
    }:
        variants.append(x.copy())
        variants[-1].flat[list(pair)] *= -1
    bits = {v.tobytes() for v in variants}
    assert len({engine.fingerprint(v) for v in variants}) == len(bits)


@cases("dtype", DTYPES)
def test_planes_of_every_layout_and_at_the_ends_of_the_format(engine, dtype):
    is_complex = dtype.startswith("complex")
    drawn, shifts = random_matrix(11, 37, dtype, 1.0), np.arange(11, dtype=np.int32) + 2
    system = residue_system("2m" if is_complex else "real", 3)
    for lay in LAYOUTS.values():
        for own in (lay(drawn), lay(drawn.T).T):
            assert_planes_agree(engine, own, shifts, system)
    x = extreme_matrix(dtype)
    kinds = ["2m", "3m", "4m", "hybrid"] if is_complex else ["real"]
    for kind, count in product(kinds, (8, 16, 20)):
        system = residue_system(kind, count)
        rule = scaling_rule(system, x.shape[1])
        known = REFERENCE.measure(x, rule.norm_bits, ("squares",))[:2]
        exponents = REFERENCE.choose_exponents(*known, rule)
        assert_planes_agree(engine, x, exponents, system)
