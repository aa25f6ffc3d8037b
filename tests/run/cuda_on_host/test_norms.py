"""The norm kernels against the reference."""

from itertools import product

import numpy as np
import pytest

from tests.support.cases import cases
from tests.support.cuda.operands import LAYOUTS, OPERAND_SHAPES, extreme_matrix
from tests.support.strategies import DTYPES, random_matrix, spread_matrix
from twom_dist.kernels import get_engine
from twom_dist.moduli import (
    NAN_ROW,
    NONFINITE_ROW,
    ZERO_ROW,
    residue_system,
    scaling_rule,
)

REFERENCE = get_engine("reference")


def expected_norms(x) -> list[np.ndarray]:
    """Largest exponents, and sums of two precisions."""
    largest = REFERENCE.largest_exponents(x)
    return [largest, *(REFERENCE.row_sums(x, largest, bits) for bits in (20, 11))]


def assert_norms_agree(calls, x, expected=None, **mapping) -> None:
    largest = calls.largest_exponents(x, **mapping)
    sums = [calls.row_sums(x, largest, bits, **mapping) for bits in (20, 11)]
    expected = expected or expected_norms(x)
    pairs = zip([largest, *sums], expected, strict=True)
    assert all((found == np.array(wanted)).all() for found, wanted in pairs)
    squares = calls.square_sums(x, largest, 20, **mapping)
    assert (squares == expected[1][0]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_of_every_layout(calls, dtype):
    x = random_matrix(37, 75, dtype, 4.0)
    expected = expected_norms(x)
    for layout, across in product(LAYOUTS.values(), (False, True)):
        assert_norms_agree(calls, layout(x), expected, across=across)


@cases("across", [False, True])
@cases("shape", OPERAND_SHAPES)
def test_norms_of_every_shape(calls, shape, across):
    x = random_matrix(*shape, "complex128", 2.0, list(shape))
    assert_norms_agree(calls, x, across=across)


@pytest.mark.parametrize("span", [1, 7, 32, 5000])
def test_norms_do_not_see_the_cuts(calls, span):
    x = random_matrix(9, 301, "complex64", 2.0)
    expected = expected_norms(x)
    assert_norms_agree(calls, x, expected, span=span)
    assert_norms_agree(calls, x, expected, span=span, across=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_at_the_ends_of_the_format(calls, dtype):
    x = extreme_matrix(dtype)
    expected = expected_norms(x)
    assert_norms_agree(calls, x, expected)
    assert_norms_agree(calls, x, expected, across=True)
    found = calls.largest_exponents(x)
    assert ZERO_ROW in found
    assert NONFINITE_ROW in found


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponents_of_columns(engine, dtype):
    for x in (spread_matrix(37, 75, dtype), spread_matrix(300, 7, dtype)):
        largest = REFERENCE.largest_exponents(x)
        expected = REFERENCE.column_exponents(x, largest)
        for layout in LAYOUTS.values():
            assert (engine.column_exponents(layout(x), largest) == expected).all()


def test_tiles_add_and_take_the_maximum(calls):
    x = random_matrix(5, 90, "complex128", 4.0)
    largest = calls.largest_exponents(x)
    tiles = [x[:, :31], x[:, 31:]]
    parts = [calls.largest_exponents(tile) for tile in tiles]
    assert (np.maximum(*parts) == largest).all()
    sums = [calls.square_sums(tile, largest, 20) for tile in tiles]
    assert (sum(sums) == calls.square_sums(x, largest, 20)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_magnitudes(engine, dtype):
    x = extreme_matrix(dtype)
    largest = REFERENCE.largest_exponents(x)
    expected = REFERENCE.magnitudes(x, largest)
    for layout in LAYOUTS.values():
        assert (engine.magnitudes(layout(x), largest) == expected).all()
    assert engine.magnitudes(x[:0], largest[:0]).shape == (0, x.shape[1])


@pytest.mark.parametrize("choice", [("2m", 1), ("2m", 16), ("hybrid", 49), ("real", 9)])
def test_exponents_follow_the_rule(calls, choice):
    system = residue_system(*choice)
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 63, 700)
    sums = (1 << bits) + rng.integers(-1, 2, 700) * (bits > 1)
    sums[:2] = 1, 2**63 - 1
    largest = rng.integers(-1100, 1100, 700).astype(np.int32)
    largest[5:9] = ZERO_ROW, NONFINITE_ROW, ZERO_ROW, NAN_ROW
    rule = scaling_rule(system, 3)
    near = rule.leading >> rng.integers(0, 31, 700) * 2
    for own in (sums, np.maximum(near + rng.integers(-1, 2, 700), 1)):
        found = calls.choose_exponents(largest, own.astype(np.int64), rule)
        assert (found == REFERENCE.choose_exponents(largest, own, rule)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_rounding_errors(engine, dtype):
    for x in (extreme_matrix(dtype), spread_matrix(37, 75, dtype)):
        largest = REFERENCE.largest_exponents(x)
        squares = REFERENCE.square_sums(x, largest, 20)
        for choice in (("real", 3), ("real", 15)):
            rule = scaling_rule(residue_system(*choice), x.shape[1])
            e = REFERENCE.choose_exponents(largest, squares, rule)
            for bits in (20, 11):
                expected = REFERENCE.error_sums(x, e, bits)
                for layout in LAYOUTS.values():
                    assert (engine.error_sums(layout(x), e, bits) == expected).all()
