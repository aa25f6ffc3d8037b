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
    shaped = td.plan(td.integers.herk, a.shape, dtype="complex128")
    lazily = td.plan(td.integers.herk, da.from_array(a)).num_moduli
    assert lazily == shaped.num_moduli == 7


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


@cases("lazily", (False, True))
@cases("dtype", ("int32", "int64"))
def test_products_become_integers(lazily, dtype):
    def give(x):
        return da.from_array(x, chunks=3) if lazily else x

    x, y = (random_integers(t, "int8", True, 1) for t in ((7, 5), (5, 6)))
    for a, b in ((x, y), (x[..., 0], y[..., 0])):
        given, pairs = (give(a), give(b)), a.ndim == 3
        found = td.integers.gemm(*given, pairs=pairs, dtype=dtype)
        assert found.dtype == np.asarray(found).dtype == dtype
        assert (np.asarray(found) == td.integers.matmul(a, b, pairs=pairs)).all()


def test_sums_beyond_int32_are_refused():
    x = np.full((2, 1 << 16, 2), -128, np.int8)
    with raises(AccuracyError, "exact-range"):
        td.integers.herk(x, pairs=True, dtype="int32")
    found = td.integers.herk(x, pairs=True, dtype=np.int64)
    assert found.tolist() == [[[2**31, 0]] * 2] * 2
    found = td.integers.herk(x[:, 1:], pairs=True, dtype="int32")
    assert found.tolist() == [[[2**31 - 2**15, 0]] * 2] * 2


def test_other_dtypes_and_places_are_refused(tmp_path):
    A = np.eye(2, dtype=np.int8)
    for dtype in ("uint64", "int8", "no"):
        with raises(ArgumentError, "dtype"):
            td.integers.gemm(A, A, dtype=dtype)
    for options in ({"alpha": 2}, {"out": np.eye(2)}):
        with raises(ArgumentError, "exact-dtype"):
            td.integers.syrk(A, dtype="int32", **options)
    np.save(tmp_path / "A.npy", A)
    with raises(PlanError, "routine") as caught:
        files = tmp_path / "A.npy", tmp_path / "C.npy"
        td.rank_k_files(td.integers.syrk, *files, dtype="int32")
    assert "dtype" in caught.value.remedy
    with raises(ArgumentError, "dtype"):
        td.integers.matmul(A, A, dtype="float32")
