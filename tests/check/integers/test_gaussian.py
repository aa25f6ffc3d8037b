"""integers.matmul, compared with Python integers."""

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.integers import RANGES, full, multiply, random_integers
from twom_dist.errors import ArgumentError, PlanError
from twom_dist.integers import limbs

DTYPES = tuple(RANGES)
SHAPES = st.tuples(*(st.integers(1, 5),) * 3)


def assert_right(found, expected) -> None:
    assert found.shape == expected.shape
    assert (found == expected).all()


def fits(x) -> bool:
    return all(-(2**63) <= t < 2**63 for t in x.flat)


@given(SHAPES, st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.booleans())
def test_every_dtype_with_every_other(shape, left, right, pairs):
    m, n, k = shape
    a = random_integers((m, k), left, pairs, 1)
    b = random_integers((k, n), right, pairs, 2)
    expected = multiply(a, b, pairs)
    found = td.integers.matmul(a, b, pairs=pairs, dtype=object)
    assert_right(found, expected)
    assert all(type(t) is int for t in found.flat)
    if fits(expected):
        assert_right(td.integers.matmul(a, b, pairs=pairs), expected)
    else:
        with raises(PlanError, "integer-overflow"):
            td.integers.matmul(a, b, pairs=pairs)


@given(st.integers(0, 63), st.integers(0, 63), st.integers(1, 9), st.booleans())
def test_extremes_of_every_width(left, right, k, pairs):
    a = full((2, k), -(2**left), "int64", pairs)
    b = full((k, 2), -(2**right), "int64", pairs)
    b[:, 1] = 2**right - 1
    expected = multiply(a, b, pairs)
    assert_right(td.integers.matmul(a, b, pairs=pairs, dtype=object), expected)


@pytest.mark.parametrize(
    "value", [2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**64 - 1, -(2**64)]
)
def test_results_at_the_ends_of_64_bits(value):
    """Sums that cancel: the terms are far larger than what is left."""
    half, rest = divmod(value, 2**31)
    a = np.array([[2**31, rest, 2**62, -(2**62)]])
    b = np.array([[half], [1], [2**62 + 3], [2**62 + 3]])
    assert_right(td.integers.matmul(a, b, dtype=object), multiply(a, b))
    if -(2**63) <= value < 2**63:
        assert td.integers.matmul(a, b)[0, 0] == value
    else:
        with raises(PlanError, "integer-overflow"):
            td.integers.matmul(a, b)


@cases("dtype", ["int8", "uint16", "int32", "uint32", "uint64"])
def test_results_are_of_any_dtype_that_holds_them(dtype):
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
    a = np.array([[1, 2], [3, 4]])
    found = td.integers.matmul(
        np.stack([a, a], -1), np.stack([a, 0 * a], -1), pairs=True, dtype=dtype
    )
    assert found.tolist() == np.stack([a @ a] * 2, -1).tolist()


def test_odd_results_just_beyond_doubles_are_whole():
    one, most = 2**26 + 1, 2**27 - 1
    assert td.integers.matmul([[most]], [[most]]) == most**2
    a, b = np.array([[[one, one - 1]]]), np.array([[[one, one]]])
    found = td.integers.matmul(a, b, pairs=True)
    assert_right(found, np.array([[[one, (2 * one - 1) * one]]]))


@pytest.mark.parametrize("largest", [2**32 - 1, 2**32 + 1, 2**63, 2**64 + 1, 2**99])
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


def test_lists_of_python_integers():
    assert td.integers.matmul([[2**70]], [[-3]], dtype=object)[0, 0] == -3 * 2**70
    assert td.integers.matmul([[True, False]], [[5], [7]])[0, 0] == 5


def test_few_bits_take_few_moduli(monkeypatch):
    import twom_dist.integers.product as module

    taken = []

    def compute(posed):
        taken.append(len(posed.spec.moduli))
        return original(posed)

    original = module.compute
    monkeypatch.setattr(module, "compute", compute)
    a = random_integers((3, 8), "int8").astype(np.int64)
    td.integers.matmul(a, a.T)
    td.integers.matmul(a + 2**40, a.T)
    td.integers.matmul(a + 2**40, a.T + 2**40, dtype=object)
    assert taken == [3, 11, 11]
    td.integers.matmul(a + 2**60, a.T + 2**60, dtype=object)
    assert len(taken) == 3 + 4


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64"])
def test_dask(dtype, pairs):
    a = random_integers((5, 4), dtype, pairs, 1)
    b = random_integers((4, 3), dtype, pairs, 2)
    x, y = da.from_array(a, chunks=2), da.from_array(b, chunks=3)
    expected = multiply(a, b, pairs)
    lazily = td.integers.matmul(x, y, pairs=pairs, dtype=object)
    assert (lazily.shape, lazily.dtype) == (expected.shape, object)
    assert_right(lazily.compute(scheduler="sync"), expected)
    mixed = td.integers.matmul(x, b, pairs=pairs, dtype=object)
    assert_right(mixed.compute(scheduler="sync"), expected)
    lazily = td.integers.matmul(x, y, pairs=pairs)
    assert lazily.dtype == np.int64
    if fits(expected):
        assert_right(lazily.compute(scheduler="sync"), expected)
    else:
        with raises(PlanError, "integer-overflow"):
            lazily.compute(scheduler="sync")


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_stacks(dtype):
    a = random_integers((2, 1, 5, 4), dtype, True, 1)
    b = random_integers((3, 4, 2), dtype, True, 2)
    expected = multiply(a, b, True)
    options = {"pairs": True, "dtype": object}
    assert_right(td.integers.matmul(a, b, **options), expected)
    x = da.from_array(a, chunks=(1, 1, 2, 4, 2))
    assert_right(td.integers.matmul(x, b, **options).compute(), expected)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_nothing(shape):
    m, n, k = shape
    a, b = np.zeros((m, k, 2), np.int64), np.zeros((k, n, 2), np.int64)
    found = td.integers.matmul(a, b, pairs=True)
    assert found.dtype == np.int64
    assert_right(found, np.zeros((m, n, 2), np.int64))


def test_engines_agree():
    a, b = random_integers((3, 4), "int64", seed=1), random_integers((4, 2), "int64")
    found = td.integers.matmul(a, b, dtype=object, engine="reference")
    assert_right(found, multiply(a, b))


i8 = np.ones((3, 3), np.int8)


@pytest.mark.parametrize(
    ("kind", "code", "call"),
    [
        (ArgumentError, "gaussian-dtype", lambda: td.integers.matmul([["1"]], [[1]])),
        (
            ArgumentError,
            "gaussian-dtype",
            lambda: td.integers.matmul(np.array([[0.5]], object), [[1]]),
        ),
        (
            ArgumentError,
            "gaussian-dtype",
            lambda: td.integers.matmul(i8, i8, dtype=np.float64),
        ),
        (PlanError, "pairs-shape", lambda: td.integers.matmul(i8, i8, pairs=True)),
        (PlanError, "pairs", lambda: td.integers.matmul(i8, i8, pairs=2)),
        (PlanError, "shapes", lambda: td.integers.matmul(i8, i8[:2])),
    ],
)
def test_refusals(kind, code, call):
    with raises(kind, code):
        call()


def test_numpys_integers_among_large_ones():
    a = np.array([[np.int8(-128), 2**70]], object)
    found = td.integers.matmul(a, np.array([[1], [1]], object), dtype=object)
    assert found.tolist() == [[2**70 - 128]]
