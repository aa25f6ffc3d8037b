"""Encode: planes of residues of scaled and rounded rows, the same in every engine.

The fixture `encode` is called as the stage is, and returns planes (planes, rows, k).
"""

from math import isqrt

import numpy as np

from tests.support.cases import cases, sample
from tests.support.cuda.operands import LAYOUTS, OPERAND_SHAPES, extreme_matrix
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.kernels import get_engine
from twom_dist.moduli import (
    NAN_ROW,
    NONFINITE_ROW,
    available_moduli,
    residue_system,
    scaling_rule,
    symmetric_residue,
)

REFERENCE = get_engine("reference")

# (method, moduli), with 1 to 6 words.
SYSTEMS = (
    *(("2m", 1), ("2m", 2), ("2m", 8), ("2m", 16), ("2m", 17), ("2m", 22)),
    *(("3m", 1), ("3m", 15), ("3m", 16), ("3m", 49), ("4m", 11), ("4m", 30)),
    *(("hybrid", 22), ("hybrid", 30), ("hybrid", 49)),
    *(("eisenstein", n) for n in (1, 2, 8, 16, 17, 23)),
    *(("real", 1), ("real", 8), ("real", 16), ("real", 30), ("real", 49)),
)
USUAL = (
    *(("2m", 1), ("2m", 16), ("2m", 22), ("3m", 15), ("4m", 30), ("hybrid", 49)),
    *(("eisenstein", 16), ("eisenstein", 23), ("real", 8), ("real", 49)),
)
EVERY = [
    (method, count)
    for method in ("2m", "3m", "hybrid", "eisenstein", "real")
    for count in range(1, len(available_moduli(method)) + 1)
]


def dtype_for(method: str, single: bool = False) -> str:
    name = "float" if method == "real" else "complex"
    bits = (32 if single else 64) * (1 if method == "real" else 2)
    return f"{name}{bits}"


def assert_planes_agree(encode, x, exponents, system, **options) -> np.ndarray:
    """Encode, compare with the reference, and see that the matrix is as it was."""
    before = x.tobytes()
    found = encode(x, exponents, system, **options)
    assert x.tobytes() == before
    expected = REFERENCE.encode(x, exponents, system, **options).residues()
    assert (found == expected).all()
    return found


def scaled_exponents(x, system) -> np.ndarray:
    rule = scaling_rule(system, x.shape[1])
    assert rule is not None
    largest = REFERENCE.largest_exponents(x)
    sums = REFERENCE.square_sums(x, largest, rule.norm_bits)
    return REFERENCE.choose_exponents(largest, sums, rule)


@sample("choice", SYSTEMS, USUAL)
def test_planes_of_every_system(encode, choice):
    system = residue_system(*choice)
    for single in (False, True):
        x = random_matrix(9, 23, dtype_for(choice[0], single), 3.0, choice[1])
        x[2] = 0
        x[4, 5] = np.nan
        exponents = scaled_exponents(x, system)
        for conjugate in (False, True):
            assert_planes_agree(encode, x, exponents, system, conjugate=conjugate)


@sample("choice", SYSTEMS, USUAL)
def test_planes_of_shifted_columns(encode, choice):
    """Rows with a NaN among them, and more columns than a strip has."""
    system, rng = residue_system(*choice), np.random.default_rng(1)
    for k in (5, 600):
        x = random_matrix(17, k, dtype_for(choice[0]), 1.0, k)
        exponents = rng.integers(3, 7, 17).astype(np.int32)
        x[2], x[-1, -1] = 0, np.nan
        exponents[2], exponents[-1] = 0, NONFINITE_ROW
        shifts = rng.integers(-3, 4, k).astype(np.int32)
        assert_planes_agree(encode, x, exponents, system, shifts=shifts)


@cases("choice", SYSTEMS)
def test_largest_integers_and_ties(encode, choice):
    """Integers up to R in magnitude: multiples of large powers of two, and ties."""
    system = residue_system(*choice)
    radius = isqrt(system.capacity)
    top = 2 ** (radius.bit_length() - 1)
    step = max(1, top >> 52)
    values = [top, -top, top - step, step - top, top // 2 + step, -step, step, 0]
    small = [0.5, -0.5, 1.5, -1.5, 2.5, 0.49999999999999994, 2.0**-1074, -1.0]
    x = np.array([values, small], np.float64)
    if choice[0] != "real":
        x = x + 1j * x[:, ::-1]
    assert_planes_agree(encode, x, np.zeros(2, np.int32), system)


@sample("choice", EVERY, [x for x in EVERY if x in SYSTEMS])
def test_the_largest_entries_are_encoded_exactly(encode, choice):
    """Norms up to the square root of the capacity, in each number of words."""
    system = residue_system(*choice)
    top = np.nextafter(float(isqrt(system.capacity)), 0)
    x = np.array([[top, -top, 0.7 * top, top * 2.0**-30, top / 2 + 1]])
    if choice[0] != "real":
        x = np.concatenate([x, 1j * x, (0.6 + 0.7j) * x, (0.8 - 0.5j) * x], axis=1)
    assert_planes_agree(encode, x, np.zeros(1, np.int32), system)


def test_planes_are_symmetric_residues_of_the_quantised_matrix(encode):
    system = residue_system("hybrid", 22)
    x = np.array([[1.5 - 2.5j, 0.5 + 1e9j], [-7 + 3.5j, 2.0**70 - 1j]])
    whole = [[(2, -2), (0, 10**9)], [(-7, 4), (2**70, -1)]]  # ties go to even
    exponents = np.zeros(2, np.int32)
    for sign in (1, -1):
        found = encode(x, exponents, system, conjugate=sign < 0)
        for plane, own in zip(system.planes, found, strict=True):
            re, im = plane.re_weight, sign * plane.im_weight
            expected = [
                [symmetric_residue(re * a + im * b, plane.p) for a, b in row]
                for row in whole
            ]
            assert own.tolist() == expected


@cases("shape", OPERAND_SHAPES)
def test_planes_of_every_shape(encode, shape):
    x = random_matrix(*shape, "complex128", 1.0, list(shape))
    exponents = np.arange(shape[0], dtype=np.int32) % 60 - 20
    exponents[::5], exponents[1::5] = NONFINITE_ROW, NAN_ROW
    assert_planes_agree(encode, x, exponents, residue_system("hybrid", 22))


@cases("layout", LAYOUTS)
@cases("dtype", DTYPES)
def test_planes_of_every_layout(encode, dtype, layout):
    system = residue_system("2m" if dtype.startswith("complex") else "real", 3)
    x, exponents = random_matrix(11, 37, dtype, 1.0), np.arange(11, dtype=np.int32) + 2
    for own in (LAYOUTS[layout](x), LAYOUTS[layout](x.T).T):
        assert_planes_agree(encode, own, exponents, system)


@cases("method", ["2m", "3m", "4m", "hybrid", "eisenstein"])
@cases("dtype", DTYPES)
def test_planes_at_the_ends_of_the_format(encode, dtype, method):
    kind = method if dtype.startswith("complex") else "real"
    x = extreme_matrix(dtype)
    for count in (8, 16, 20):
        system = residue_system(kind, count)
        assert_planes_agree(encode, x, scaled_exponents(x, system), system)


def test_a_real_system_leaves_the_imaginary_part_out(encode):
    system = residue_system("real", 2)
    x = random_matrix(5, 9, "complex128", 1.0)
    assert_planes_agree(encode, x, np.full(5, 3, np.int32), system)
