"""gemm: BLAS semantics, NaN and Inf, dtypes, and every input that is refused."""

from decimal import Decimal
from fractions import Fraction
from itertools import product

import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import same_bits
from tests.support.oracle import ExactProduct
from tests.support.strategies import DTYPES, SHAPES, random_matrix

METHODS = ("2m", "3m", "4m", "hybrid", "blas")
OPS = {"N": lambda x: x, "T": lambda x: x.T, "C": lambda x: x.conj().T}
BAD = [[x] * 3 for x in (np.nan, np.inf, -np.inf)]
BAD += [[complex(0, np.inf), complex(np.nan, 1), complex(1, -np.inf)]]


def families(x):
    return x, da.from_array(x, chunks=2)


@cases("shape", SHAPES)
@cases("dtype", DTYPES)
def test_products_of_every_shape_dtype_op_and_method(engine_name, dtype, shape):
    m, n, k = shape
    A, B = random_matrix(m, k, dtype, 1.0, 1), random_matrix(k, n, dtype, 1.0, 2)
    method = METHODS[(m + n + k) % len(METHODS)]
    given = {"engine": engine_name, "method": method}
    expected = td.gemm(A, B, **given)
    assert (expected.dtype, expected.shape) == (np.dtype(dtype), (m, n))
    assert expected.flags.c_contiguous
    assert expected.flags.writeable
    for op_a, op_b in product("NTC", "NTC"):
        # Each op undoes itself.
        C = td.gemm(OPS[op_a](A), OPS[op_b](B), op_a=op_a, op_b=op_b, **given)
        error = ExactProduct(A, B).componentwise_error(C)
        assert error <= 4 * np.finfo(dtype).eps
        assert method == "blas" or same_bits(C, expected)


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


@cases("alpha", [1, -1, 2.5, 1 - 2j, 0])
@cases("beta", [1, -1, 0.25, 3j, 0])
def test_alpha_and_beta(engine_name, alpha, beta):
    """C that is not read, and A and B that are not, may be anything."""
    A, B, C = (random_matrix(4, 4, seed=s) for s in (1, 2, 3))
    P, own = td.gemm(A, B), C if beta else np.full_like(C, np.nan)
    left = A if alpha else np.full_like(A, np.nan)
    for x in families(left):
        found = td.gemm(x, B, own, alpha=alpha, beta=beta, engine=engine_name)
        found = np.asarray(found)
        scale = abs(alpha) * abs(P) + abs(beta) * abs(C)
        assert (abs(found - (alpha * P + beta * C)) <= 1e-15 * scale).all()
        if alpha in (0, 1) and beta in (0, 1):
            assert (found == alpha * P + beta * C).all()


@cases("alpha", [1, 0, 1j, np.inf, np.nan])
@cases(("m", "n", "k"), [(3, 2, 0), (0, 3, 2), (3, 0, 2), (0, 0, 0)])
def test_empty_products_are_beta_c(engine_name, m, n, k, alpha):
    A, B, C = np.zeros((m, k), complex), np.zeros((k, n), complex), random_matrix(m, n)
    for left, beta in product(families(A), (0, 1, -2, 1j)):
        found = td.gemm(left, B, C, alpha=alpha, beta=beta, engine=engine_name)
        assert found.shape == (m, n)
        assert (np.asarray(found) == beta * C).all()


@cases("options", [{}, {"alpha": 0}, {"method": "blas"}])
@cases(("k", "beta"), [(3, 1), (3, 2), (0, 2)])
def test_a_real_beta_keeps_the_parts_of_an_infinite_c_apart(options, k, beta):
    C = np.array([[complex(np.inf, 1)]])
    for left in families(np.ones((1, k), complex)):
        found = np.asarray(td.gemm(left, np.ones((k, 1)), C, beta=beta, **options))
        assert (found[0, 0].real, found[0, 0].imag) == (np.inf, beta)
    # In the precision of the product.
    C = np.full((1, 1), np.pi, "f4")
    for left in families(np.ones((1, k))):
        found = td.gemm(left, np.ones((k, 1)), C, alpha=0, beta=0.1)
        assert same_bits(found, 0.1 * C.astype("f8"))


def test_numbers_of_every_type_are_taken():
    assert td.gemm([[1, 2]], [[3], [4]]).tolist() == [[11.0]]
    assert td.gemm([[True, True]], [[2j], [1]]).tolist() == [[1 + 2j]]
    a = np.eye(3)
    for number in (Decimal("0.25"), Fraction(1, 4), np.float16(0.25), np.array(0.25)):
        assert td.gemm(a, a, alpha=number)[0, 0] == 0.25
    expected = td.explain(td.gemm, a, a, accuracy=2.0**-20)
    for number in (Decimal(2) ** -20, Fraction(1, 2**20), np.float32(2.0**-20)):
        found = td.explain(td.gemm, a, a, accuracy=number)
        assert found.num_moduli == expected.num_moduli
        assert found.error_bound == expected.error_bound
    for infinite in (np.inf, Decimal("-Infinity"), complex(np.inf, np.nan)):
        assert not np.isfinite(td.gemm(a + 0j, a, alpha=infinite)[0, 0])


@cases("value", BAD)
@cases("dtype", DTYPES)
@cases("ops", ["NN", "TC", "CT"])
@cases("method", ["2m", "3m"])
def test_nonfinite_rows_and_columns_and_nothing_else(dtype, value, ops, method):
    if dtype[0] != "c" and isinstance(value[0], complex):
        return
    A, B = random_matrix(6, 5, dtype, 1.0, 1), random_matrix(5, 7, dtype, 1.0, 2)
    B[2] = 0  # Inf * 0 is NaN: not finite either
    clean_a, clean_b = A.copy(), B.copy()
    A[1, 2], A[4, 0], B[3, 5] = value
    clean_a[[1, 4]], clean_b[:, 5] = 0, 0
    stored = OPS[ops[0]](A), OPS[ops[1]](B)
    C = td.gemm(*stored, op_a=ops[0], op_b=ops[1], method=method)
    touched = np.zeros(C.shape, bool)
    touched[[1, 4]], touched[:, 5] = True, True
    assert (np.isfinite(C) == ~touched).all()
    assert (C[~touched] == td.gemm(clean_a, clean_b, method=method)[~touched]).all()
    if dtype == "float64":
        with np.errstate(invalid="ignore"):
            native = A @ B
        assert np.array_equal(C[touched], native[touched], equal_nan=True)
    # One bad entry of C is one of the result.
    added = td.gemm(clean_a, clean_b, C, beta=1, method=method)
    assert (np.isfinite(added) == np.isfinite(C)).all()


def test_infinities_of_one_sign_stay_infinities(engine_name):
    """Finite entries count by sign: no sum of theirs may overflow on the way."""
    A = np.array([[np.inf, 1e308, -1e308], [1e308, 1e308, np.inf], [1, 2, 3]])
    B = np.array([[1, -2], [1e300, 1], [5, -1]])
    C = td.gemm(A, B, engine=engine_name)
    assert C[:2].tolist() == [[np.inf, -np.inf], [np.inf, -np.inf]]
    assert td.gemm(A[1:2, ::-1], B[::-1, :1] * [[-1], [1], [1]])[0, 0] == -np.inf
    assert np.isfinite(C[2]).all()
    A, B = np.eye(2), np.eye(2)
    A[0, 0] = np.inf
    assert np.isnan(td.gemm(A, B, engine=engine_name)[0, 1])


def test_overflow_is_infinite_and_underflow_gradual(engine_name):
    for x, y, alpha, expected in (
        (5e-324, 1e300, 1, 5e-324 * 1e300),
        (5e-324 + 0j, 1e300, 1, 5e-324 * 1e300),
        (1e300, 1e300, 1, np.inf),
        (-1e300, 1e300, 1, -np.inf),
        (1e-200, 3e-120, 1, 3e-320),
        (1e200, 1e200, 1e-300, pytest.approx(1e100, rel=1e-15)),
        (1.7e308, 1, 1, 1.7e308),
    ):
        given = {"alpha": alpha, "engine": engine_name}
        assert td.gemm([[x]], [[y]], **given)[0, 0] == expected
