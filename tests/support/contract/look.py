"""What is known of rows, columns and pairs before moduli are chosen; octaves."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.cases import cases
from tests.support.cuda.operands import LAYOUTS, OPERAND_SHAPES, extreme_matrix
from tests.support.expect import same_bits
from tests.support.pipeline import REFERENCE
from tests.support.strategies import DTYPES, random_matrix, spread_matrix, turned
from twom_dist.kernels.statistics import COUNTED, FAR, NONE
from twom_dist.moduli import (
    NAN_ROW,
    NONFINITE_ROW,
    ZERO_ROW,
    norm_bits,
    residue_system,
    scaling_rule,
)

ALL = ("squares", "totals", "columns", "octaves")


def look_at(engine, x):
    found = engine.measure(x, 20, ALL)
    largest, squares = found[:2]
    assert same_bits(engine.measure(x, 20).largest, largest)
    octaves = engine.octaves(x, largest)
    assert engine.octaves(x[:0], largest[:0]).shape == (0, x.shape[1])
    less = engine.measure(x, 20, ("squares",), largest=largest)
    assert same_bits(less.squares, squares)
    assert less.totals is less.columns is less.octaves is None
    every = found._asdict() | {"each octave": octaves}
    coarse = engine.measure(x, 11, ALL)
    every |= {"squares 11": coarse.squares, "totals 11": coarse.totals}
    for count in (3, 15):
        rule = scaling_rule(residue_system("real", count), x.shape[1])
        every[f"exponents {count}"] = engine.choose_exponents(largest, squares, rule)
        for bits, measured in ((20, found), (11, coarse)):
            own = replace(rule, norm_bits=bits)
            every[f"errors {count}, {bits}"] = engine.error_sums(x, measured, own)
    return every


def assert_looks_agree(engine, x, layouts):
    expected = look_at(REFERENCE, x)
    for lay in layouts:
        found = look_at(engine, lay(x))
        for name, value in expected.items():
            assert same_bits(found[name], value), name


@pytest.mark.parametrize("dtype", DTYPES)
def test_looks_of_every_layout(engine, dtype):
    drawn = random_matrix(19, 45, dtype, 4.0)
    for x in (extreme_matrix(dtype), drawn, spread_matrix(19, 45, dtype)):
        assert_looks_agree(engine, x, LAYOUTS.values())


@pytest.mark.parametrize("shape", [s for s in OPERAND_SHAPES if 0 not in s])
def test_looks_of_every_shape(engine, shape):
    x = random_matrix(*shape, "complex128", 2.0, [*shape])
    assert_looks_agree(engine, x, [np.ascontiguousarray, np.asfortranarray])


@cases("shape", [(3, 0), (0, 3)])
def test_looks_without_entries(engine, shape):
    found = engine.measure(np.zeros(shape, complex), 20, ALL)
    assert found.largest.tolist() == [ZERO_ROW] * shape[0]
    assert not found.squares.any()
    assert not found.octaves.any()
    assert found.columns.shape == (3, shape[1])
    assert (found.columns == ZERO_ROW).all()


def test_tiles_add_and_take_the_maximum(engine):
    x = random_matrix(5, 90, "complex128", 4.0)
    e = np.arange(90, dtype=np.int32) % 7 - 3
    for shifts in (None, e):
        whole = engine.measure(x, 20, ALL, shifts=shifts)
        pieces = slice(None, 31), slice(31, None)
        given = [(x[:, t], None if shifts is None else shifts[t]) for t in pieces]
        parts = [engine.measure(t, 20, shifts=f).largest for t, f in given]
        largest = np.maximum(*parts)
        assert same_bits(largest, whole.largest)
        for asks in (("squares",), ("squares", "totals"), ALL):
            parts = [
                engine.measure(t, 20, asks, largest=largest, shifts=f) for t, f in given
            ]
            for name in {*asks} - {"columns"}:
                one, other = (getattr(part, name) for part in parts)
                assert same_bits(one + other, getattr(whole, name)), name
        columns = np.concatenate([part.columns for part in parts], axis=1)
        assert same_bits(columns, whole.columns)


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
        both = zip(largest.tolist(), own.tolist(), strict=True)
        assert found.tolist() == [rule.exponent(*x) for x in both]


def test_exponents_of_columns_leave_out_rows_that_are_not_finite(engine):
    x = np.array([[0.75, 0, 2.0**-1074], [5, 0, 3], [np.nan, 9, 9], [1, -np.inf, 9]])
    found = engine.measure(x, 20, ("columns",)).columns
    assert found.dtype == np.int32
    assert found.tolist() == [[0, ZERO_ROW, -1], [3, ZERO_ROW, 2], [0, ZERO_ROW, 1073]]
    e = np.array([0, 3], np.int32)
    tiles = [
        engine.measure(x[[i]], 20, ("columns",), largest=e[[i]]).columns for i in (0, 1)
    ]
    assert np.maximum(*tiles).tolist() == found.tolist()


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


def assert_analysed(found, expected, places):
    assert same_bits(found.cosines, expected.cosines)
    if expected.columns is None:
        assert found.columns is None
    else:
        assert same_bits(found.columns, expected.columns)
    own = found.largest_errors(places), expected.largest_errors(places)
    assert own[0].tolist() == own[1].tolist()
    # Octaves may be there, or not.
    every = (
        [own._replace(octaves=None) for own in x.statistics()]
        for x in (found, expected)
    )
    pairs = [*zip(*every, strict=True)]
    octaves = found.count_octaves(places), expected.count_octaves(places)
    for x, y in [*pairs, *zip(*octaves, strict=True)]:
        for name, value in y._asdict().items():
            own = getattr(x, name)
            assert own is None if value is None else same_bits(own, value), name


@pytest.mark.parametrize("dtype", DTYPES)
def test_operands_are_analysed_as_by_the_reference(engine, dtype):
    method = "2m" if np.dtype(dtype).kind == "c" else "real"
    for x, y in operands(dtype):
        k = x.shape[1]
        rule = scaling_rule(residue_system(method, 8), k)
        e = np.arange(k, dtype=np.int32) % 7 - 3
        shifted = [random_matrix(rows, k, dtype, 4.0, rows) for rows in (3, 20)]
        for own, shifts in (([x, y], None), ([y], None), (shifted, [e, -e])):
            options = {"columns": shifts is None, "rule": rule, "shifts": shifts}
            expected = REFERENCE.analyse(own, norm_bits(k), **options)
            for lay in (np.ascontiguousarray, np.asfortranarray):
                found = engine.analyse([lay(t) for t in own], norm_bits(k), **options)
                assert_analysed(found, expected, np.zeros(1, int))


@pytest.mark.parametrize("dtype", DTYPES)
def test_stacks_are_analysed_matrix_by_matrix(engine, dtype):
    x, y = (
        np.stack([spread_matrix(rows + i, 35, dtype)[i:] for i in range(3)])
        for rows in (5, 66)
    )
    x[1, 1], x[1, :, 3], y[1, 2, 3], y[2] = 0, 0, np.nan, 0
    for own in ([x], [y, turned(x)]):
        options = {"columns": True, "rule": scaling_rule(residue_system("real", 8), 35)}
        expected = REFERENCE.analyse(own, 20, **options)
        assert expected.cosines.min() < 0.9
        for octaves, places in ((False, [0, 1, 2]), (True, [1]), (True, [0, 2])):
            found = engine.analyse(own, 20, octaves=octaves, **options)
            assert_analysed(found, expected, np.array(places))


@cases("dtype", DTYPES)
def test_octaves_and_columns_of_stacks(engine, dtype):
    stack = np.stack([random_matrix(5, 9, dtype, 4.0, seed) for seed in range(3)])
    stack[1, 2, 3], stack[0, :, 1] = np.nan, 0
    largest = REFERENCE.measure(stack, 20).largest
    expected = [REFERENCE.octaves(*t) for t in zip(stack, largest, strict=True)]
    for own in (stack, turned(stack)):
        assert same_bits(engine.octaves(own, largest), np.array(expected))
        found = engine.measure(own, 20, ("columns",), largest=largest).columns
        alone = [REFERENCE.measure(x, 20, ("columns",)).columns for x in stack]
        assert same_bits(found, np.array(alone))


def test_octaves_are_those_of_the_larger_part(engine):
    x = np.array([[1, 0.5j, 0.75 + 2j, 3.9, 0, 2.0**-61, 2.0**-62, 1e-310]])
    largest = engine.measure(x, 20).largest
    found = engine.octaves(x, largest)
    assert found.tolist() == [[1, 2, 0, 0, NONE, 62, FAR, FAR]]
    tiny = np.array([[2.0**-1040, 2.0**-1030], [np.nan, 1], [np.inf, 1], [0, 0]])
    found = engine.octaves(tiny, engine.measure(tiny, 20).largest)
    assert found.tolist() == [[10, 0], *[[NONE, NONE]] * 3]


def test_counts_are_those_down_to_each_octave(engine):
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (9, 300), (40, 70), (3, 5, 70)):
        x = np.ldexp(1.5, -rng.integers(0, 80, shape))
        x *= rng.random(shape) < 0.9
        for own in (x, turned(x)):
            found = engine.measure(own, 20, ("squares", "totals", "octaves"))
            octaves = engine.octaves(own, found.largest)
            expected = np.stack(
                [(octaves <= end).sum(axis=-1) for end in COUNTED], axis=-1
            )
            assert same_bits(found.octaves, expected.astype(np.int32))


@cases("shape", [(1, 1, 1), (2, 3, 5), (70, 3, 33), (65, 130, 100), (3, 4, 0)])
def test_products_are_the_least_sums(engine, shape):
    m, n, k = shape
    rng = np.random.default_rng([*shape])
    x, y = (
        rng.choice([*range(63), FAR, NONE], (rows, k)).astype(np.uint8)
        for rows in (m, n)
    )
    x[:, : k // 2], y[: n // 2] = NONE, NONE
    sums = x[:, np.newaxis].astype(int) + y
    expected = np.minimum(sums.min(axis=2, initial=NONE), NONE).astype(np.uint8)
    assert same_bits(engine.multiply_octaves(x, y), expected)
    before = rng.integers(0, NONE, (m, n)).astype(np.uint8)
    found = engine.multiply_octaves(x, y, before.copy())
    assert same_bits(found, least := np.minimum(before, expected))
    # What is enough need not be the least, but what is too much is.
    for most in (0, 300, 800, 1200):
        enough = [rng.integers(0, 1 + most // 2, z).astype(np.int16) for z in (m, n)]
        found = engine.multiply_octaves(x, y, before.copy(), enough)
        is_open = 8 * found.astype(int) > enough[0][:, np.newaxis] + enough[1]
        assert ((least <= found) & (found <= before)).all()
        assert same_bits(found[is_open], least[is_open])
