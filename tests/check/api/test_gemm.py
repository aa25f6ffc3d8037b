"""gemm: BLAS semantics, NaN and Inf, dtypes, and every input that is refused."""

from decimal import Decimal
from fractions import Fraction

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.oracle import ExactProduct
from tests.support.strategies import DTYPES, LAYOUTS, SHAPES, random_matrix
from twom_dist.errors import ArgumentError

METHODS = ("2m", "3m", "4m", "hybrid", "eisenstein", "blas")
OPS = {"N": lambda x: x, "T": lambda x: x.T, "C": lambda x: x.conj().T}
BAD = (np.nan, np.inf, -np.inf)


def close(c, a, b, units=4):
    """Compare with the exact product; the largest error is `units` of roundoff."""
    u = np.finfo(c.dtype).eps
    return ExactProduct(a, b).componentwise_error(c) <= units * u


def unreadable(shape, dtype="complex128"):
    """A dask array that fails the test if anything reads it."""

    def fail(block):
        raise AssertionError("this operand must not be read")

    zeros = da.zeros(shape, dtype=dtype, chunks=shape)
    return zeros.map_blocks(fail, dtype=dtype, meta=np.empty((0, 0), dtype))


# --- values -----------------------------------------------------------------------


@cases("shape", SHAPES)
@cases("dtype", DTYPES)
def test_products_of_every_shape_and_dtype(engine_name, dtype, shape):
    m, n, k = shape
    A, B = random_matrix(m, k, dtype, 1.0, 1), random_matrix(k, n, dtype, 1.0, 2)
    C = td.gemm(A, B, engine=engine_name)
    assert (C.dtype, C.shape) == (np.dtype(dtype), (m, n))
    assert C.flags.c_contiguous
    assert C.flags.writeable
    assert close(C, A, B)


@cases("op_b", OPS)
@cases("op_a", OPS)
@cases("dtype", ["float64", "complex128"])
@cases("method", METHODS)
def test_every_op_of_every_method(method, dtype, op_a, op_b):
    A, B = random_matrix(4, 5, dtype, 1.0, 1), random_matrix(5, 3, dtype, 1.0, 2)
    expected = td.gemm(A, B, method=method)
    stored_a, stored_b = OPS[op_a](A), OPS[op_b](B)  # each op undoes itself
    C = td.gemm(stored_a, stored_b, op_a=op_a, op_b=op_b, method=method)
    assert close(C, A, B)
    if method != "blas":
        assert C.tobytes() == expected.tobytes()


@cases("layout", LAYOUTS)
@cases("op", OPS)
def test_layouts_change_nothing(layout, op):
    A, B, C = (random_matrix(7, 7, seed=s) for s in (1, 2, 3))
    options = {"alpha": 2, "beta": -1, "op_a": op, "op_b": op}
    expected = td.gemm(A, B, C, **options)
    moved = [LAYOUTS[layout](x) for x in (A, B, C)]
    found = td.gemm(*moved, **options)
    assert found.dtype.isnative
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("largest_tile", [1, 3, 4, 100])
def test_eager_tiles_change_nothing(largest_tile):
    import dask

    A, B, C = (random_matrix(*s, seed=1) for s in ((9, 7), (7, 10), (9, 10)))
    A[2, 3], B[0, 4] = np.nan, np.inf
    expected = td.gemm(A, B, C, alpha=2j, beta=0.5)
    with dask.config.set({"twom-dist.largest-tile": largest_tile}):
        found = td.gemm(A, B, C, alpha=2j, beta=0.5)
    assert np.array_equal(found, expected, equal_nan=True)


def test_inputs_are_neither_written_to_nor_returned():
    A, B, C = (random_matrix(5, 5, seed=s) for s in (1, 2, 3))
    copies = [x.copy() for x in (A, B, C)]
    for alpha in (0, 1, 2j):
        for beta in (0, 1, -1):
            out = td.gemm(A, B, C, alpha=alpha, beta=beta)
            assert not any(np.shares_memory(out, x) for x in (A, B, C))
            out[...] = np.nan
            for x, copy in zip((A, B, C), copies, strict=True):
                assert x.tobytes() == copy.tobytes()


def test_lists_and_integers_and_booleans_are_numbers():
    assert td.gemm([[1, 2]], [[3], [4]]).tolist() == [[11.0]]
    assert td.gemm([[True, True]], [[2j], [1]]).tolist() == [[1 + 2j]]
    assert td.gemm(np.eye(2, dtype=np.int8), np.eye(2, dtype=np.float16)).dtype == "f4"


# --- alpha, beta and C ------------------------------------------------------------


@cases("alpha", [1, -1, 2.5, 1 - 2j])
@cases("beta", [1, -1, 0.25, 3j])
def test_alpha_and_beta(engine_name, alpha, beta):
    A, B, C = (random_matrix(4, 4, seed=s) for s in (1, 2, 3))
    found = td.gemm(A, B, C, alpha=alpha, beta=beta, engine=engine_name)
    P = td.gemm(A, B)
    scale = abs(alpha) * abs(P) + abs(beta) * abs(C)
    assert (abs(found - (alpha * P + beta * C)) <= 1e-15 * scale).all()
    if alpha == 1 and beta == 1:
        assert (found == P + C).all()


def test_alpha_zero_does_not_read_a_and_b():
    C = random_matrix(3, 4)
    bad = np.full((3, 3), np.nan), np.full((3, 4), np.inf)
    assert td.gemm(*bad, C, alpha=0, beta=1).tobytes() == C.tobytes()
    assert (td.gemm(*bad, C, alpha=0, beta=2j) == 2j * C).all()
    assert not td.gemm(*bad, alpha=0).any()
    lazy = td.gemm(unreadable((3, 3)), unreadable((3, 4)), C, alpha=0, beta=-2)
    assert (lazy.compute(scheduler="sync") == -2 * C).all()


@pytest.mark.parametrize("beta", [0.1, 1, -3])
@pytest.mark.parametrize("family", ["numpy", "dask"])
def test_alpha_zero_scales_c_in_the_precision_of_the_product(family, beta):
    A, B = random_matrix(2, 3, "float64"), random_matrix(3, 2, "float64")
    C = random_matrix(2, 2, "float32")
    left = A if family == "numpy" else da.from_array(A)
    found = np.asarray(td.gemm(left, B, C, alpha=0, beta=beta))
    assert found.dtype == "float64"
    assert found.tolist() == (beta * C.astype("float64")).tolist()


def test_beta_zero_does_not_read_c(engine_name):
    A, B = random_matrix(3, 5, seed=1), random_matrix(5, 4, seed=2)
    expected = td.gemm(A, B)
    C = np.full((3, 4), np.nan + 1j)
    found = td.gemm(A, B, C, beta=0, engine=engine_name)
    assert found.tobytes() == expected.tobytes()
    unread = unreadable((3, 4))
    lazy = td.gemm(da.from_array(A), B, unread, beta=0, engine=engine_name)
    assert lazy.compute(scheduler="sync").tobytes() == expected.tobytes()


@cases("alpha", [1, 0, 2, 1j, np.inf, np.nan])
@cases("family", ["numpy", "dask"])
def test_k_zero_gives_beta_c(family, alpha):
    A, B, C = np.zeros((3, 0), complex), np.zeros((0, 2), complex), random_matrix(3, 2)
    left = A if family == "numpy" else da.from_array(A)
    assert np.asarray(td.gemm(left, B, alpha=alpha)).tolist() == [[0, 0]] * 3
    for beta in (0, 1, -2, 1j):
        found = np.asarray(td.gemm(left, B, C, alpha=alpha, beta=beta))
        assert (found == beta * C).all()


@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 2), (3, 0, 2), (0, 0, 0), (0, 2, 0)])
def test_empty_products(engine_name, m, n, k):
    A, B = np.zeros((m, k), complex), np.zeros((k, n), complex)
    for left in (A, da.from_array(A)):
        C = td.gemm(left, B, np.ones((m, n)), beta=2, engine=engine_name)
        assert C.shape == (m, n)
        assert np.asarray(C).shape == (m, n)


@cases("way", ["product", "alpha = 0", "k = 0"])
@cases("method", ["2m", "blas"])
@cases("family", ["numpy", "dask"])
@cases("beta", [1, 2])
def test_a_real_beta_keeps_the_parts_of_an_infinite_c_apart(family, method, way, beta):
    k = 0 if way == "k = 0" else 3
    A, B = np.ones((1, k), complex), np.ones((k, 1), complex)
    C = np.array([[complex(np.inf, 1)]])
    left = A if family == "numpy" else da.from_array(A)
    alpha = 0 if way == "alpha = 0" else 1
    found = np.asarray(td.gemm(left, B, C, alpha=alpha, beta=beta, method=method))
    assert found[0, 0].real == np.inf
    assert found[0, 0].imag == beta


# --- NaN and Inf ------------------------------------------------------------------


@cases("value", BAD)
@cases("dtype", DTYPES)
@cases("ops", ["NN", "TC", "CT"])
def test_nonfinite_rows_and_columns_and_nothing_else(engine_name, dtype, value, ops):
    A, B = random_matrix(6, 5, dtype, 1.0, 1), random_matrix(5, 7, dtype, 1.0, 2)
    B[2] = 0  # Inf * 0 is NaN: not finite either
    clean_a, clean_b = A.copy(), B.copy()
    A[1, 2], A[4, 0], B[3, 5] = value, value, value
    clean_a[[1, 4]], clean_b[:, 5] = 0, 0
    stored = OPS[ops[0]](A), OPS[ops[1]](B)
    C = td.gemm(*stored, op_a=ops[0], op_b=ops[1], engine=engine_name)
    touched = np.zeros(C.shape, bool)
    touched[[1, 4]], touched[:, 5] = True, True
    assert (np.isfinite(C) == ~touched).all()
    assert (C[~touched] == td.gemm(clean_a, clean_b)[~touched]).all()
    if dtype == "float64":
        with np.errstate(invalid="ignore"):
            native = A @ B
        assert np.array_equal(C[touched], native[touched], equal_nan=True)


@pytest.mark.parametrize("part", [complex(0, np.inf), complex(np.nan, 1), np.inf])
def test_one_bad_part_is_enough(part):
    A, B = np.ones((2, 2), complex), np.ones((2, 2), complex)
    A[0, 1] = part
    for method in METHODS[:-1]:
        C = td.gemm(A, B, method=method)
        assert not np.isfinite(C[0]).any()
        assert C[1].tolist() == [2, 2]


def test_infinities_of_one_sign_stay_infinities(engine_name):
    """Finite entries count by sign: no sum of theirs may overflow on the way."""
    A = np.array([[np.inf, 1e308, -1e308], [1e308, 1e308, np.inf], [1, 2, 3]])
    B = np.array([[1, -2], [1e300, 1], [5, -1]])
    C = td.gemm(A, B, engine=engine_name)
    assert C[:2].tolist() == [[np.inf, -np.inf], [np.inf, -np.inf]]
    assert td.gemm(A[1:2, ::-1], B[::-1, :1] * [[-1], [1], [1]])[0, 0] == -np.inf
    assert np.isfinite(C[2]).all()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_infinity_times_zero_is_nan_in_every_shape(engine_name, count):
    A, B = np.ones((count, 2)), np.ones((2, count))
    A[0, 0], B[0, -1] = np.inf, 0
    assert np.isnan(td.gemm(A, B, engine=engine_name)[0, -1])
    assert np.isnan(td.gemm(A.astype(complex), B, engine=engine_name)[0, -1])


@cases("alpha", [1, -2, 1j])
@cases("beta", [1, -1])
def test_nonfinite_c_stays_where_it_is(engine_name, alpha, beta):
    A, B = random_matrix(3, 3, seed=1), random_matrix(3, 3, seed=2)
    C = random_matrix(3, 3, seed=3)
    expected = td.gemm(A, B, C, alpha=alpha, beta=beta)
    C[1, 1] = np.nan
    found = td.gemm(A, B, C, alpha=alpha, beta=beta, engine=engine_name)
    assert np.isnan(found[1, 1])
    found[1, 1] = expected[1, 1]
    assert found.tobytes() == expected.tobytes()


def test_overflow_is_infinite_and_underflow_gradual(engine_name):
    tiny, huge = np.array([[5e-324]]), np.array([[1e300]])
    assert td.gemm(tiny, huge, engine=engine_name)[0, 0] == 5e-324 * 1e300
    assert td.gemm(tiny + 0j, huge, engine=engine_name)[0, 0] == 5e-324 * 1e300
    assert td.gemm(huge, huge, engine=engine_name)[0, 0] == np.inf
    assert td.gemm(-huge, huge, engine=engine_name)[0, 0] == -np.inf
    assert td.gemm([[1e-200]], [[3e-120]], engine=engine_name)[0, 0] == 3e-320
    large = td.gemm([[1e200]], [[1e200]], alpha=1e-300, engine=engine_name)[0, 0]
    assert large == pytest.approx(1e100, rel=1e-15)
    big = np.full((2, 2), 1.7e308)
    assert td.gemm(big, np.eye(2), engine=engine_name).tolist() == big.tolist()


@pytest.mark.parametrize("largest", [16, 64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_strips_of_rows_change_nothing(monkeypatch, largest, order):
    from twom_dist.kernels.cpu import engine

    A, B = random_matrix(70, 41, seed=1), random_matrix(41, 50, seed=2)
    C = random_matrix(70, 50, seed=3)
    A[3, 7], B[5, 40] = np.nan, np.inf
    options = {"num_moduli": 4, "alpha": 2j, "beta": 0.5}
    expected = td.gemm(A, B, C, **options)
    monkeypatch.setattr(engine, "STRIP_BYTES", 1)
    monkeypatch.setattr(engine, "SMALLEST_STRIP", 7)
    out = np.empty((70, 50), complex, order)
    with dask.config.set({"twom-dist.largest-tile": largest}):
        found = td.gemm(A, B, C, **options)
        assert td.gemm(A, B, C, out=out, **options) is out
    assert found.tobytes() == out.tobytes() == expected.tobytes()


def test_numbers_of_every_type_are_taken():
    a = np.eye(3)
    for number in (Decimal("0.25"), Fraction(1, 4), np.float16(0.25), np.array(0.25)):
        assert td.gemm(a, a, alpha=number)[0, 0] == 0.25
    expected = td.explain(td.gemm, a, a, accuracy=2.0**-20)
    for number in (Decimal(2) ** -20, Fraction(1, 2**20), np.float32(2.0**-20)):
        found = td.explain(td.gemm, a, a, accuracy=number)
        assert (found.num_moduli, found.error_bound) == (
            expected.num_moduli,
            expected.error_bound,
        )
        assert (td.herk(a, accuracy=number) == td.herk(a, accuracy=2.0**-20)).all()
    for infinite in (np.inf, Decimal("-Infinity"), complex(np.inf, np.nan)):
        assert not np.isfinite(td.gemm(a + 0j, a, alpha=infinite)[0, 0])


@cases("name", ("alpha", "beta"))
def test_a_factor_that_is_an_array_is_refused(name):
    a, factors = np.eye(3), {"alpha": 1.0, "beta": 1.0}
    factors[name] = np.ones(2)
    with raises(ArgumentError, "scalar"):
        td.gemm(a, a, C=a, **factors, out=np.empty((3, 3)))


def test_a_number_beyond_doubles_is_called_one():
    with raises(ArgumentError, "scalar") as caught:
        td.gemm([[1.0]], [[1.0]], alpha=10**400)
    assert "is not a number" not in caught.value.problem
