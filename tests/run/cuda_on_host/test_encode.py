"""The encode kernel against the reference."""

from math import isqrt

import numpy as np
import pytest

from tests.support.cases import cases, sample
from tests.support.cuda.operands import LAYOUTS, OPERAND_SHAPES, extreme_matrix
from tests.support.expect import raises
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.errors import KernelError
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda.tables import encode_constants, encode_table, encode_words
from twom_dist.moduli import (
    NAN_ROW,
    NONFINITE_ROW,
    available_moduli,
    make_system,
    residue_system,
    scaling_rule,
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


def dtype_for(method: str, single: bool = False) -> str:
    name = "float" if method == "real" else "complex"
    bits = (32 if single else 64) * (1 if method == "real" else 2)
    return f"{name}{bits}"


def assert_planes_agree(calls, x, exponents, system, **options) -> None:
    conjugate = options.get("conjugate", False)
    found = calls.encode(x, exponents, system, **options)
    expected = REFERENCE.encode(x, exponents, system, conjugate=conjugate)
    rows, k = x.shape
    assert (found[:, :rows, :k] == expected.residues()).all()
    assert not found[:, rows:].any()
    assert not found[:, :, k:].any()


def scaled_exponents(x, system) -> np.ndarray:
    rule = scaling_rule(system, x.shape[1])
    assert rule is not None
    largest = REFERENCE.largest_exponents(x)
    sums = REFERENCE.square_sums(x, largest, rule.norm_bits)
    return REFERENCE.choose_exponents(largest, sums, rule)


@sample("choice", SYSTEMS, USUAL)
def test_planes_of_every_system(calls, choice):
    system = residue_system(*choice)
    for single in (False, True):
        x = random_matrix(9, 23, dtype_for(choice[0], single), 3.0, choice[1])
        x[2] = 0
        x[4, 5] = np.nan
        exponents = scaled_exponents(x, system)
        assert_planes_agree(calls, x, exponents, system)
        options = {"conjugate": True, "across": True, "pad_rows": 7}
        assert_planes_agree(calls, x, exponents, system, **options)


@cases("choice", SYSTEMS)
def test_largest_integers_and_ties(calls, choice):
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
    assert_planes_agree(calls, x, np.zeros(2, np.int32), system)


@cases("across", [False, True])
@cases("shape", OPERAND_SHAPES)
def test_planes_of_every_shape(calls, shape, across):
    x = random_matrix(*shape, "complex128", 1.0, list(shape))
    exponents = np.arange(shape[0], dtype=np.int32) % 60 - 20
    exponents[::5], exponents[1::5] = NONFINITE_ROW, NAN_ROW
    options = {"across": across, "pad_rows": shape[1] % 9}
    assert_planes_agree(calls, x, exponents, residue_system("hybrid", 22), **options)


@cases("across", [False, True])
@cases("layout", LAYOUTS)
@cases("dtype", DTYPES)
def test_planes_of_every_layout(calls, dtype, layout, across):
    system = residue_system("2m" if dtype.startswith("complex") else "real", 3)
    x = LAYOUTS[layout](random_matrix(11, 37, dtype, 1.0))
    exponents = np.arange(11, dtype=np.int32) + 2
    assert_planes_agree(calls, x, exponents, system, across=across)


@cases("method", ["2m", "3m", "4m", "hybrid", "eisenstein"])
@cases("dtype", DTYPES)
def test_planes_at_the_ends_of_the_format(calls, dtype, method):
    kind = method if dtype.startswith("complex") else "real"
    x = extreme_matrix(dtype)
    for count in (8, 16, 20):
        system = residue_system(kind, count)
        assert_planes_agree(calls, x, scaled_exponents(x, system), system)


def test_a_real_system_leaves_the_imaginary_part_out(calls):
    system = residue_system("real", 2)
    x = random_matrix(5, 9, "complex128", 1.0)
    assert_planes_agree(calls, x, np.full(5, 3, np.int32), system)


@pytest.mark.parametrize("method", ["2m", "3m", "4m", "hybrid", "eisenstein", "real"])
def test_every_quantised_value_fits_its_words(method):
    words = []
    for count in range(1, len(available_moduli(method)) + 1):
        system = residue_system(method, count)
        words.append(encode_words(system))
        assert isqrt(system.capacity) < 2 ** (32 * words[-1] - 1)
        assert not encode_table(system).flags.writeable
    assert words == sorted(words)
    assert words[:8] == [1] * 8 if method == "2m" else words[0] == 1


def test_moduli_in_another_order_are_refused():
    system = make_system("hybrid", ((256, "3m"), (241, "2m")))
    with raises(KernelError, "order-of-moduli"):
        encode_constants(system)
