"""Integers in floating-point arrays, complex ones as Gaussian integers."""

import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from tests.support.integers import as_parts, random_integers
from twom_dist.errors import AccuracyError, ArgumentError, PlanError


def as_complex(pairs, dtype="complex128"):
    return (pairs[..., 0] + 1j * pairs[..., 1]).astype(dtype)


P, Q = (random_integers(x, "int16", True, 1) for x in ((7, 5), (5, 6)))
EXACT = td.integers.gemm(P, Q, pairs=True)


def test_real_numbers_meet_integers_and_complex_ones():
    a, b, z = P[..., 0], Q[..., 0], as_complex(Q)
    exact, mixed = td.integers.gemm(a, b), a @ z
    for y in (b, da.from_array(b.astype("f4"))):
        assert same_bits(np.asarray(td.integers.gemm(a.astype(float), y)), exact)
    for x in (a, a.astype(float), da.from_array(a, chunks=4)):
        assert (np.asarray(td.integers.gemm(x, z)) == mixed).all()
        found = np.asarray(td.integers.matmul(x, z))
        assert (found == as_parts(mixed)).all()
    for x, y in ((as_complex(P), z), (da.from_array(as_complex(P, "c8"), chunks=3), z)):
        words = td.integers.matmul(x, y)
        assert words.dtype == np.int64
        assert (np.asarray(words) == as_parts(EXACT)).all()


def test_the_largest_entries_decide_the_moduli():
    a = np.ones((3, 8), complex)
    for size, count in ((1, 1), (100, 3), (2**20, 6)):
        assert td.explain(td.integers.herk, a * size).num_moduli == count
    # Of blocks yet to be read, and of shapes, only k and the 53 bits are known.
    lazily = td.plan(td.integers.herk, da.from_array(a)).num_moduli
    assert lazily == td.plan(td.integers.herk, a.shape).num_moduli == 7


def test_extremes():
    for k, bits in ((1, 52), (4, 50)):
        side = 2 ** (bits // 2)
        a = np.full((1, k), side * (1 - 1j))
        for x in (a, da.from_array(a)):
            assert td.integers.herk(x)[0, 0] == 2 * k * side**2
        with raises(AccuracyError, "exact-range"):
            td.integers.herk(a + 1)
        with raises(AccuracyError, "exact-range"):
            td.integers.herk(da.from_array(a + 1)).compute(scheduler="sync")
    far, near = np.array([[2.0**53 - 1]]), np.array([[1.0]])
    assert td.integers.gemm(far, -near)[0, 0] == 1 - 2.0**53
    # What is known of one side leaves the other one more.
    lazily = td.integers.gemm(da.from_array(far), near)
    assert lazily.compute(scheduler="sync")[0, 0] == 2.0**53 - 1
    top = td.integers.matmul(far, far, dtype=object)
    assert top[0, 0] == (2**53 - 1) ** 2


def bad(value, dtype=complex):
    x = np.zeros((4, 3), dtype)
    x[2, 1] = value
    return x


CALLS = (
    td.integers.herk,
    lambda x: td.integers.her2k(np.ones(x.shape), x),
    lambda x: td.integers.matmul(x, np.ones((x.shape[1], 2))),
)


@cases("call", CALLS)
@cases("value", [0.5, 3 + 0.5j, np.nan, 1j * np.inf, 2.0**53 + 2, 1e300])
def test_the_first_entry_that_is_not_an_integer_is_named(call, value):
    x = bad(value)
    x[3, 2] = 0.25
    with raises(PlanError, "not-integer") as caught:
        call(x)
    assert "[2, 1] has the part" in caught.value.problem
    lazily = call(da.from_array(x, chunks=(2, 3)))
    with raises(PlanError, "not-integer") as caught:
        lazily.compute(scheduler="sync")
    assert "[0, 1] in block (1, 0)" in caught.value.problem


def test_the_last_entry_of_a_large_matrix_is_looked_at():
    x = np.ones((300, 301), complex)
    x[250, 300] = 0.5j
    for given in (x, np.asfortranarray(x), bad(2**24 + 2, "f4")):
        with raises(PlanError, "not-integer"):
            td.integers.herk(given)


def test_files_are_looked_at_as_they_are_read(tmp_path):
    a = np.random.default_rng(1).integers(-9, 9, (6, 8)) * (1 + 2j)
    output = tmp_path / "C.npy"
    np.save(tmp_path / "A.npy", a)
    given = {"chunks": 4, "overwrite": True}
    td.rank_k_files(td.integers.herk, tmp_path / "A.npy", output, **given)
    assert same_bits(np.load(output), td.integers.herk(a))
    a[5, 6] += 0.5
    np.save(tmp_path / "A.npy", a)
    with raises(PlanError, "not-integer") as caught:
        td.rank_k_files(td.integers.herk, tmp_path / "A.npy", output, **given)
    assert "A.npy[5, 6]" in caught.value.problem


LEAST, MOST = -(2.0**31), 2.0**31
# What is given, the dtype, and what becomes of it: None if it is beyond the range.
RANGES = [
    (MOST, "int64", 2**31),
    (MOST, "int32", None),
    (LEAST, "int32", -(2**31)),
    (LEAST * (1 + 1j), "int32", [-(2**31)] * 2),
    (LEAST - 1, "int32", None),
    (LEAST - 1j * LEAST, "int32", None),
    *((200.0, dtype, 200) for dtype in ("uint64", "uint8")),
    *((x, dtype, None) for x in (-1.0, 5 - 1j) for dtype in ("uint64", "uint8")),
    (256.0, "uint8", None),
    (3.0, "int64", 3),
    (3 - 4j, "int64", [3, -4]),
]


@cases("lazily", (False, True))
@cases("shape", ((), (3,), (4, 4)))
@cases(("value", "dtype", "expected"), RANGES)
def test_results_become_integers_of_a_range(lazily, shape, value, dtype, expected):
    x = np.full(shape, value)
    x = da.from_array(x, chunks=3) if lazily else x
    if expected is None:
        with raises(AccuracyError, "exact-range"):
            np.asarray(td.integers.to_integers(x, dtype=dtype))
        return
    lazy = td.integers.to_integers(x, dtype=dtype)
    found = np.asarray(lazy)
    assert lazy.dtype == found.dtype == dtype
    assert (found == expected).all()
    assert found.shape == (*shape, *(2,) * isinstance(expected, list))


@cases("lazily", (False, True))
def test_products_become_integers_and_others_none(lazily):
    def give(x):
        return da.from_array(np.array(x), chunks=3) if lazily else x

    whole = td.integers.to_integers(give(EXACT))
    assert (np.asarray(whole) == td.integers.matmul(P, Q, pairs=True)).all()
    for x in (0.5, [1.0, 0.5], [1j, 0.5j], np.nan, np.inf, 2.0**54):
        with raises(PlanError, "not-integer"):
            np.asarray(td.integers.to_integers(give(x)))


def test_other_arrays_and_dtypes_are_refused():
    for given, dtype in ((np.eye(2), "float32"), (np.eye(2), "no"), ([[1]], "int64")):
        with raises(ArgumentError, "dtype"):
            td.integers.to_integers(given, dtype=dtype)
    assert td.integers.to_integers(np.empty((0, 3), complex)).shape == (0, 3, 2)
