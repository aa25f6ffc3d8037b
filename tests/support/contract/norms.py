"""What is known of rows and columns: exponents, sums, magnitudes, rounding errors."""

from itertools import product

import numpy as np
import pytest

from tests.support.bits import same_bits
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


def assert_norms_agree(engine, x, own=None) -> None:
    """Compare largest exponents, and sums of two precisions, with the reference's.

    `own`: the same matrix as it lies for the engine.
    """
    own, largest = x if own is None else own, REFERENCE.largest_exponents(x)
    assert same_bits(engine.largest_exponents(own), largest)
    for bits in (20, 11):
        expected = REFERENCE.row_sums(x, largest, bits)
        found = engine.row_sums(own, largest, bits)
        assert all(map(same_bits, found, map(np.asarray, expected)))
        assert same_bits(engine.square_sums(own, largest, bits), expected[0])


@cases("layout", LAYOUTS)
@cases("dtype", DTYPES)
def test_norms_of_every_layout(engine, dtype, layout):
    x = random_matrix(37, 75, dtype, 4.0)
    assert_norms_agree(engine, x, LAYOUTS[layout](x))


@cases("shape", OPERAND_SHAPES)
def test_norms_of_every_shape(engine, shape):
    assert_norms_agree(engine, random_matrix(*shape, "complex128", 2.0, [*shape]))


@cases("dtype", DTYPES)
def test_norms_at_the_ends_of_the_format(engine, dtype):
    x = extreme_matrix(dtype)
    assert_norms_agree(engine, x)
    assert {ZERO_ROW, NONFINITE_ROW} <= {*engine.largest_exponents(x).tolist()}


def test_tiles_add_and_take_the_maximum(engine):
    x = random_matrix(5, 90, "complex128", 4.0)
    largest, tiles = engine.largest_exponents(x), [x[:, :31], x[:, 31:]]
    parts = [engine.largest_exponents(tile) for tile in tiles]
    assert same_bits(np.maximum(*parts), largest)
    sums = [engine.square_sums(tile, largest, 20) for tile in tiles]
    assert same_bits(sum(sums), engine.square_sums(x, largest, 20))


@pytest.mark.parametrize("choice", [("2m", 1), ("2m", 16), ("hybrid", 49), ("real", 9)])
def test_exponents_follow_the_rule(engine, choice):
    rng, rule = np.random.default_rng(1), scaling_rule(residue_system(*choice), 3)
    bits = rng.integers(0, 63, 700)
    sums = (1 << bits) + rng.integers(-1, 2, 700) * (bits > 1)
    sums[:2] = 1, 2**63 - 1
    largest = rng.integers(-1100, 1100, 700).astype(np.int32)
    largest[5:9] = ZERO_ROW, NONFINITE_ROW, ZERO_ROW, NAN_ROW
    near = rule.leading >> rng.integers(0, 31, 700) * 2
    for own in (sums, np.maximum(near + rng.integers(-1, 2, 700), 1)):
        found = engine.choose_exponents(largest, own.astype(np.int64), rule)
        assert same_bits(found, REFERENCE.choose_exponents(largest, own, rule))


@cases("dtype", DTYPES)
def test_sums_of_rounding_errors(engine, dtype):
    for x in (extreme_matrix(dtype), spread_matrix(37, 75, dtype)):
        largest = REFERENCE.largest_exponents(x)
        squares = REFERENCE.square_sums(x, largest, 20)
        for count in (3, 15):
            rule = scaling_rule(residue_system("real", count), x.shape[1])
            e = REFERENCE.choose_exponents(largest, squares, rule)
            for bits, layout in product((20, 11), LAYOUTS.values()):
                found = engine.error_sums(layout(x), e, bits)
                assert same_bits(found, REFERENCE.error_sums(x, e, bits))


# --- columns ------------------------------------------------------------------------


@cases("shape", [(1, 1), (37, 75), (5, 300), (300, 7), (0, 3)])
@cases("dtype", DTYPES)
def test_exponents_of_columns(engine, dtype, shape):
    x = spread_matrix(*shape, dtype)
    largest = REFERENCE.largest_exponents(x)
    expected = REFERENCE.column_exponents(x, largest)
    for layout in LAYOUTS.values():
        assert same_bits(engine.column_exponents(layout(x), largest), expected)


def test_exponents_of_columns_leave_out_rows_that_are_not_finite(engine):
    x = np.array([[0.75, 0, 2.0**-1074], [5, 0, 3], [np.nan, 9, 9], [1, -np.inf, 9]])
    found = engine.column_exponents(x, engine.largest_exponents(x))
    assert found.dtype == np.int32
    assert found.tolist() == [[0, ZERO_ROW, -1], [3, ZERO_ROW, 2], [0, ZERO_ROW, 1073]]
    e = np.array([0, 3], np.int32)
    tiles = [engine.column_exponents(x[[i]], e[[i]]) for i in (0, 1)]
    assert np.maximum(*tiles).tolist() == found.tolist()
