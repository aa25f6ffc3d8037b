"""integers.matmul, compared with Python integers."""

import dask.array as da
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.integers import RANGES, multiply, random_integers
from tests.support.strategies import ENGINE_NAMES
from twom_dist.errors import ArgumentError, PlanError

STACKS = [((), ()), ((), ()), ((2, 1), (3,)), ((2,), ())]


def assert_right(found, expected) -> None:
    assert found.shape == expected.shape
    assert (found == expected).all()


def fits(x) -> bool:
    return all(-(2**63) <= t < 2**63 for t in x.flat)


def shrink(x, bits):
    """Integers of a dtype, none beyond 2^bits."""
    return x if x.dtype.itemsize < 8 else x >> max(0, 64 - bits)


@settings(max_examples=40)
@given(st.tuples(*(st.integers(0, 5),) * 3), st.data(), st.booleans(), st.booleans())
def test_every_dtype_with_every_other(shape, data, pairs, lazily):
    (m, n, k), stacks = shape, data.draw(st.sampled_from(STACKS))
    left, right = (data.draw(st.sampled_from([*RANGES])) for _ in range(2))
    bits = data.draw(st.sampled_from([31, 44]))
    a = shrink(random_integers((*stacks[0], m, k), left, pairs, 1), bits)
    b = shrink(random_integers((*stacks[1], k, n), right, pairs, 2), bits)
    options = {"pairs": pairs, "engine": data.draw(st.sampled_from(ENGINE_NAMES))}
    expected = multiply(a, b, pairs)
    if lazily:
        a = da.from_array(a, chunks=2)
        b = data.draw(st.sampled_from([b, da.asarray(b)]))
    if fits(expected):
        found = td.integers.matmul(a, b, **options)
        assert (found.shape, found.dtype) == (expected.shape, np.int64)
        assert_right(np.asarray(found), expected)
    else:
        with raises(PlanError, "integer-overflow"):
            np.asarray(td.integers.matmul(a, b, **options))


@cases("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_results_are_of_any_dtype_that_holds_them(dtype):
    """Also where sums cancel: the terms are far larger than what is left."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for value in (low, high, low - 1, high + 1):
        half, rest = divmod(value, 2**31)
        short = np.array([[half, rest]]), np.array([[2**31], [1]])
        long = np.array([[2**31, rest, 2**46, -(2**46)]])
        cancelled = long, np.array([[half], [1], [2**45 + 3], [2**45 + 3]])
        given = [short, cancelled, [da.from_array(x, chunks=1) for x in short]]
        for a, b in given:
            if low <= value <= high:
                found = np.asarray(td.integers.matmul(a, b, dtype=dtype))
                assert (found.dtype, found.tolist()) == (dtype, [[value]])
            else:
                with raises(PlanError, "integer-overflow"):
                    np.asarray(td.integers.matmul(a, b, dtype=dtype))


def test_what_may_be_too_large_is_refused():
    most = 2**53
    assert td.integers.matmul([[most, most]], [[512], [511 - 512]]) == most * 511
    for value in (most + 1, -most - 1, -(2**63)):
        with raises(PlanError, "integer-range"):
            td.integers.matmul([[value]], [[1]])
        lazy = da.from_array(np.array([[value]]))
        with raises(PlanError, "integer-range"):
            td.integers.matmul(lazy, [[1]]).compute(scheduler="sync")
    a = np.full((1, 2), 2**47)
    with raises(PlanError, "integer-range"):
        td.integers.matmul(a, a.T)
    lazily = [da.from_array(x) for x in (a, a.T)]
    with raises(PlanError, "integer-range"):
        td.integers.matmul(*lazily).compute(scheduler="sync")
    a[0, 0] = -1
    assert td.integers.matmul(a, a.T // 2**46) == 2**48 + 1


def test_odd_results_just_beyond_doubles_are_whole():
    one, most = 2**26 + 1, 2**27 - 1
    assert td.integers.matmul([[most]], [[most]]) == most**2
    a, b = np.array([[[one, one - 1]]]), np.array([[[one, one]]])
    found = td.integers.matmul(a, b, pairs=True)
    assert_right(found, np.array([[[one, (2 * one - 1) * one]]]))


i8, half = np.ones((3, 3), np.int8), np.full((3, 3), 0.5, object)
REFUSALS = [
    (ArgumentError, "gaussian-dtype", [["1"] * 3] * 3, {}),
    (ArgumentError, "gaussian-dtype", [[2**70] * 3] * 3, {}),
    (ArgumentError, "gaussian-dtype", half, {}),
    (ArgumentError, "dtype", i8, {"dtype": np.float64}),
    (ArgumentError, "dtype", i8, {"dtype": object}),
    (PlanError, "pairs-shape", i8, {"pairs": True}),
    (PlanError, "pairs", i8, {"pairs": 2}),
    (PlanError, "shapes", i8[:2], {}),
]


@cases(("kind", "code", "b", "options"), REFUSALS)
def test_refusals(kind, code, b, options):
    with raises(kind, code):
        td.integers.matmul(i8, b, **options)
