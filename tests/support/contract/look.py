"""What is known of rows, columns and pairs of rows before moduli are chosen."""

import numpy as np
import pytest

from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.cuda.operands import LAYOUTS, OPERAND_SHAPES, extreme_matrix
from tests.support.strategies import DTYPES, random_matrix, spread_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.survey import Surveyed
from twom_dist.moduli import (
    NAN_ROW,
    NONFINITE_ROW,
    ZERO_ROW,
    norm_bits,
    residue_system,
    scaling_rule,
)

REFERENCE = get_engine("reference")


def turned(x):
    """Lay the matrices of a stack out along columns."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


# --- rows and columns ---------------------------------------------------------------


def matrices(dtype):
    yield extreme_matrix(dtype)
    yield random_matrix(19, 45, dtype, 4.0)
    yield spread_matrix(19, 45, dtype)


def rule_for(count, k):
    return scaling_rule(residue_system("real", count), k)


def look_at(engine, x, largest=None) -> dict[str, np.ndarray]:
    """Find all that an engine knows of rows and columns."""
    found = {"largest": engine.largest_exponents(x)}
    largest = found["largest"] if largest is None else largest
    for bits in (20, 11):
        squares, totals = engine.row_sums(x, largest, bits)
        assert same_bits(engine.square_sums(x, largest, bits), squares)
        found |= {f"squares {bits}": squares, f"totals {bits}": totals}
    for count in (3, 15):
        rule = rule_for(count, x.shape[1])
        e = engine.choose_exponents(largest, found["squares 20"], rule)
        found |= {
            f"exponents {count}": e,
            f"errors {count}": engine.error_sums(x, e, 20),
            f"errors {count}, 11": engine.error_sums(x, e, 11),
        }
    found["columns"] = engine.column_exponents(x, largest)
    return found | {"octaves": engine.octaves(x, largest)}


def assert_looks_agree(engine, x, layouts) -> None:
    expected = look_at(REFERENCE, x)
    for lay in layouts:
        found = look_at(engine, lay(x))
        for name, value in expected.items():
            assert same_bits(found[name], value), name


@pytest.mark.parametrize("dtype", DTYPES)
def test_looks_of_every_layout(engine, dtype):
    for x in matrices(dtype):
        assert_looks_agree(engine, x, LAYOUTS.values())


@pytest.mark.parametrize("shape", [s for s in OPERAND_SHAPES if 0 not in s])
def test_looks_of_every_shape(engine, shape):
    x = random_matrix(*shape, "complex128", 2.0, [*shape])
    assert_looks_agree(engine, x, [np.ascontiguousarray, np.asfortranarray])


@cases("shape", [(3, 0), (0, 3)])
def test_looks_without_entries(engine, shape):
    x = np.zeros(shape, complex)
    largest = engine.largest_exponents(x)
    assert largest.tolist() == [ZERO_ROW] * shape[0]
    assert not engine.square_sums(x, largest, 20).any()
    assert engine.octaves(x, largest).shape == shape
    found = engine.column_exponents(x, largest)
    assert found.shape == (3, shape[1])
    assert (found == ZERO_ROW).all()


def test_tiles_add_and_take_the_maximum(engine):
    x = random_matrix(5, 90, "complex128", 4.0)
    largest, tiles = engine.largest_exponents(x), [x[:, :31], x[:, 31:]]
    parts = [engine.largest_exponents(tile) for tile in tiles]
    assert same_bits(np.maximum(*parts), largest)
    sums = [engine.square_sums(tile, largest, 20) for tile in tiles]
    assert same_bits(sum(sums), engine.square_sums(x, largest, 20))


@cases("choice", [("2m", 1), ("2m", 16), ("hybrid", 49), ("real", 9)])
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


def test_exponents_of_columns_leave_out_rows_that_are_not_finite(engine):
    x = np.array([[0.75, 0, 2.0**-1074], [5, 0, 3], [np.nan, 9, 9], [1, -np.inf, 9]])
    found = engine.column_exponents(x, engine.largest_exponents(x))
    assert found.dtype == np.int32
    assert found.tolist() == [[0, ZERO_ROW, -1], [3, ZERO_ROW, 2], [0, ZERO_ROW, 1073]]
    e = np.array([0, 3], np.int32)
    tiles = [engine.column_exponents(x[[i]], e[[i]]) for i in (0, 1)]
    assert np.maximum(*tiles).tolist() == found.tolist()


# --- all at once --------------------------------------------------------------------


def survey(x, columns, shifts=None) -> Surveyed:
    """What the reference finds stage by stage."""
    largest = REFERENCE.largest_exponents(x, shifts)
    sums = REFERENCE.row_sums(x, largest, 20, shifts)
    ends = REFERENCE.column_exponents(x, largest) if columns else None
    return Surveyed(largest, *sums, ends)


def assert_surveyed(engine, found, expected) -> None:
    """Compare what one fetch brings."""
    given = [x for own in found for x in own if x is not None]
    wanted = [x for own in expected for x in own if x is not None]
    for one, other in zip(engine.fetch(given), wanted, strict=True):
        assert same_bits(np.asarray(one), np.asarray(other))


@cases("shape", [(1, 1), (19, 35), (300, 5), (6, 900)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_survey_is_its_stages(engine, dtype, shape):
    spread, y = spread_matrix(*shape, dtype), random_matrix(*shape, dtype, 4.0)
    e = np.arange(shape[-1], dtype=np.int32) % 7 - 3
    for x, shifts in ((spread, None), (y[::-1], [e, -e])):
        given = {"totals": True, "columns": shifts is None, "shifts": shifts}
        own = shifts or (None, None)
        expected = [
            survey(t, shifts is None, f) for t, f in zip((x, y), own, strict=True)
        ]
        for lay in (np.ascontiguousarray, np.asfortranarray):
            found = engine.survey([lay(x), y], 20, **given)
            assert_surveyed(engine, found, expected)
    assert_surveyed(
        engine, engine.survey([y], 20, totals=True, columns=False), [survey(y, False)]
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_looks_at_stacks(engine, dtype):
    """Surveys and their summary, and rounding errors, of each matrix as alone."""
    x, y = (
        np.stack([spread_matrix(rows + i, 35, dtype)[i:] for i in range(3)])
        for rows in (5, 66)
    )
    x[1, 1], x[1, :, 3], y[1, 2, 3], y[2] = 0, 0, np.nan, 0
    for operands in ([x], [y, turned(x)]):
        found = engine.survey(operands, 20, totals=True, columns=True)
        expected = [survey(t, True) for t in operands]
        assert_surveyed(engine, found, expected)
        own = engine.summarise(found, 35)
        wanted = REFERENCE.summarise(expected, 35)
        assert same_bits(own.cosines, wanted.cosines)
        assert same_bits(own.columns, wanted.columns)
        assert own.cosines.min() < 0.9
    exponents = []
    for t in (x, y):
        largest = REFERENCE.largest_exponents(t)
        own = np.where(largest == ZERO_ROW, 0, 7 - largest)
        exponents.append(np.where(largest >= NONFINITE_ROW, largest, own))
    for i in ([0], [0, 1], [1, 0]):
        given = [(x, y)[j] for j in i], [exponents[j].astype(np.int32) for j in i], 20
        every = REFERENCE.largest_errors(*given, np.arange(3))
        for places in (np.arange(3), np.array([1]), np.array([0, 2])):
            found = engine.largest_errors(*given, places)
            assert found.tolist() == every[places].tolist()


# --- the numbers that mostly decide -------------------------------------------------


def operands(dtype):
    """Yield pairs of matrices of twelve columns, or fewer, by what is in them."""
    plain, spread = random_matrix(40, 12, dtype), spread_matrix(18, 12, dtype)
    yield plain, 2 * plain[::-1][:20]
    yield spread, plain[:, ::-1]
    zeros = plain.copy()
    zeros[3], zeros[:, 4], zeros[1, 2], zeros[2, 3] = 0, 0, np.nan, np.inf
    yield zeros, spread
    yield np.zeros_like(plain), np.full_like(spread, np.nan)
    yield (plain * np.finfo(dtype).tiny / 8).astype(dtype), plain
    ends = plain / abs(plain).max()
    ends[:, 0] *= np.finfo(dtype).max / 16
    ends[:, 1] *= np.finfo(dtype).tiny
    yield ends, plain
    yield random_matrix(260, 2, dtype), random_matrix(3, 2, dtype)
    yield plain[:1, :1].copy(), plain[:2, :1].copy()


@pytest.mark.parametrize("dtype", DTYPES)
def test_operands_are_weighed_as_the_reference_does(engine, dtype):
    method = "2m" if np.dtype(dtype).kind == "c" else "real"
    for x, y in operands(dtype):
        bits = norm_bits(x.shape[1])
        rule = scaling_rule(residue_system(method, 8), x.shape[1])
        for own in ([x, y], [y]):
            expected = REFERENCE.weigh(own, bits, columns=True, rule=rule)
            for lay in (np.ascontiguousarray, np.asfortranarray):
                given = [lay(t) for t in own]
                found = engine.weigh(given, bits, columns=True, rule=rule)
                assert found.cosines == expected.cosines
                assert [*found.columns] == [*expected.columns]
                assert found.largest_error() == expected.largest_error()
                pairs = zip(found.surveyed(), expected.surveyed(), strict=True)
                for one, other in pairs:
                    assert (one.largest_exponents == other.largest_exponents).all()
                    assert (one.squares == other.squares).all()
                found = engine.weigh(given, bits, columns=False, rule=rule)
                assert (found.cosines, found.columns) == (expected.cosines, None)
