"""integers.matmul, compared with Python integers."""

import dask.array as da
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.integers import RANGES, full, multiply, random_integers
from tests.support.strategies import ENGINE_NAMES
from twom_dist.errors import ArgumentError, PlanError
from twom_dist.integers import limbs

STACKS = [((), ()), ((), ()), ((2, 1), (3,)), ((2,), ())]


def assert_right(found, expected) -> None:
    assert found.shape == expected.shape
    assert (found == expected).all()


def fits(x) -> bool:
    return all(-(2**63) <= t < 2**63 for t in x.flat)


@settings(max_examples=40)
@given(st.tuples(*(st.integers(0, 5),) * 3), st.data(), st.booleans(), st.booleans())
def test_every_dtype_with_every_other(shape, data, pairs, lazily):
    (m, n, k), stacks = shape, data.draw(st.sampled_from(STACKS))
    left, right = (data.draw(st.sampled_from([*RANGES])) for _ in range(2))
    a = random_integers((*stacks[0], m, k), left, pairs, 1)
    b = random_integers((*stacks[1], k, n), right, pairs, 2)
    options = {"pairs": pairs, "engine": data.draw(st.sampled_from(ENGINE_NAMES))}
    expected = multiply(a, b, pairs)
    if lazily:
        a = da.from_array(a, chunks=2)
        b = data.draw(st.sampled_from([b, da.asarray(b)]))
    exact = td.integers.matmul(a, b, dtype=object, **options)
    found = np.asarray(exact)
    assert (exact.shape, exact.dtype) == (expected.shape, object)
    assert_right(found, expected)
    assert all(type(t) is int for t in found.flat)
    if fits(expected):
        found = td.integers.matmul(a, b, **options)
        assert found.dtype == np.int64
        assert_right(np.asarray(found), expected)
    else:
        with raises(PlanError, "integer-overflow"):
            np.asarray(td.integers.matmul(a, b, **options))


@given(st.integers(0, 63), st.integers(0, 63), st.integers(1, 9), st.booleans())
def test_extremes_of_every_width(left, right, k, pairs):
    a = full((2, k), -(2**left), "int64", pairs)
    b = full((k, 2), -(2**right), "int64", pairs)
    b[:, 1] = 2**right - 1
    expected = multiply(a, b, pairs)
    assert_right(td.integers.matmul(a, b, pairs=pairs, dtype=object), expected)


@cases("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_results_are_of_any_dtype_that_holds_them(dtype):
    """Also where sums cancel: the terms are far larger than what is left."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for value in (low, high, low - 1, high + 1):
        half, rest = divmod(value, 2**31)
        short = np.array([[half, rest]]), np.array([[2**31], [1]])
        long = np.array([[2**31, rest, 2**62, -(2**62)]])
        cancelled = long, np.array([[half], [1], [2**62 + 3], [2**62 + 3]])
        given = [short, cancelled, ([[1, 2**90]], np.array([[value], [0]], object))]
        given += [[da.from_array(x, chunks=1) for x in short]]
        for a, b in given:
            if low <= value <= high:
                found = np.asarray(td.integers.matmul(a, b, dtype=dtype))
                assert (found.dtype, found.tolist()) == (dtype, [[value]])
            else:
                with raises(PlanError, "integer-overflow"):
                    np.asarray(td.integers.matmul(a, b, dtype=dtype))


def test_odd_results_just_beyond_doubles_are_whole():
    one, most = 2**26 + 1, 2**27 - 1
    assert td.integers.matmul([[most]], [[most]]) == most**2
    a, b = np.array([[[one, one - 1]]]), np.array([[[one, one]]])
    found = td.integers.matmul(a, b, pairs=True)
    assert_right(found, np.array([[[one, (2 * one - 1) * one]]]))


@cases("largest", [2**32 - 1, 2**32 + 1, 2**63, 2**64 + 1, 2**99])
def test_no_limb_is_larger_than_is_allowed_for(largest):
    x, count = np.array([-largest, largest], object), limbs.count_limbs(largest)
    for index, most in enumerate(limbs.largest_limbs(largest, count)):
        assert abs(limbs.take_limb(x, index, count).astype(object)).max() <= most


def test_few_integers_of_thousands_of_digits_take_no_time():
    a, b = 10**20000 + 1, -(7**3000)
    assert td.integers.matmul([[a]], [[b]], dtype=object).tolist() == [[a * b]]
    x = np.array([[[a, 1], [2, b]]], object)
    found = td.integers.matmul(x, x.swapaxes(0, 1), pairs=True, dtype=object)
    assert found.tolist() == multiply(x, x.swapaxes(0, 1), True).tolist()
    assert td.integers.matmul([[a, a]], [[5], [-5]], dtype="uint8") == 0
    with raises(PlanError, "integer-overflow"):
        td.integers.matmul([[a]], [[b]])


@given(st.integers(0, 400), st.integers(0, 200), st.booleans())
def test_python_integers_of_any_size(left, right, pairs):
    a = random_integers((3, 2), "int64", pairs, 1).astype(object) * 3**left
    b = random_integers((2, 4), "uint64", pairs, 2).astype(object) - 5**right
    expected = multiply(a, b, pairs)
    assert_right(td.integers.matmul(a, b, pairs=pairs, dtype=object), expected)


def test_lists_and_numpys_integers_among_large_ones():
    assert td.integers.matmul([[2**70]], [[-3]], dtype=object)[0, 0] == -3 * 2**70
    assert td.integers.matmul([[True, False]], [[5], [7]])[0, 0] == 5
    a = np.array([[np.int8(-128), 2**70]], object)
    found = td.integers.matmul(a, np.array([[1], [1]], object), dtype=object)
    assert found.tolist() == [[2**70 - 128]]


i8, half = np.ones((3, 3), np.int8), np.full((3, 3), 0.5, object)
REFUSALS = [
    (ArgumentError, "gaussian-dtype", [["1"] * 3] * 3, {}),
    (ArgumentError, "gaussian-dtype", half, {}),
    (ArgumentError, "dtype", i8, {"dtype": np.float64}),
    (PlanError, "pairs-shape", i8, {"pairs": True}),
    (PlanError, "pairs", i8, {"pairs": 2}),
    (PlanError, "shapes", i8[:2], {}),
]


@cases(("kind", "code", "b", "options"), REFUSALS)
def test_refusals(kind, code, b, options):
    with raises(kind, code):
        td.integers.matmul(i8, b, **options)
