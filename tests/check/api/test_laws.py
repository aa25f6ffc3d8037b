"""Laws of the product that hold bit for bit, whatever the data."""

import dask
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twom_dist as td
from tests.support.expect import same_bits
from tests.support.oracle import exact
from tests.support.strategies import gaussian_integers, operands, seeds

METHODS = ("2m", "3m", "4m", "hybrid")
methods = st.sampled_from(METHODS)
dtypes = st.sampled_from(["float32", "float64", "complex64", "complex128"])
law = settings(max_examples=40)


def assert_equal(x, y):
    """Equal in every entry, NaN never; zeros of either sign are one number."""
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    assert (x == y).all()


def powers(x, rng, shape):
    """Draw powers of two by which no entry leaves its range."""
    span = 20 if x.real.dtype == "float32" else 200
    return np.ldexp(1.0, rng.integers(-span, span, shape)).astype(x.real.dtype)


def permute(A, B, rng, multiply):
    i, j, s = (rng.permutation(x) for x in (len(A), B.shape[1], len(B)))
    yield multiply(A[:, s], B[s]), multiply(A, B)
    yield multiply(A[i], B[:, j]), multiply(A, B)[i][:, j]


def turn(A, B, rng, multiply):
    C = multiply(A, B)
    yield multiply(B.T, A.T), C.T
    yield multiply(B, A, op_a="T", op_b="T"), C.T
    yield multiply(A.conj(), B.conj()), C.conj()
    yield multiply(B.conj().T, A.conj().T), C.conj().T
    yield multiply(B, A, op_a="C", op_b="C"), C.conj().T
    square = multiply(A, A, op_b="C")
    yield square, square.conj().T


def scale(A, B, rng, multiply):
    C = multiply(A, B)
    yield multiply(-A, B), -C
    yield multiply(A, -B), -C
    rows, columns = powers(A, rng, (len(A), 1)), powers(B, rng, B.shape[1])
    yield multiply(rows * A, B * columns), rows * C * columns
    d = powers(A, rng, ())
    yield multiply(A * d, B / d), C


def cut(A, B, rng, multiply):
    """Of given moduli, and without equilibration: both depend on whole matrices."""
    i, j = rng.integers(len(A)), rng.integers(B.shape[1])
    options = {"accuracy": "normwise"}
    C = multiply(A, B, **options)
    yield multiply(A[i:], B[:, j:], **options), C[i:, j:]
    yield multiply(A[i : i + 1], B[:, : j + 1], **options), C[[i], : j + 1]
    # Zeros along k: conditional in theory, since k enters the room left for roundings.
    # An exponent changes only where a row's scaled norm lies within sqrt(k) of the
    # radius sqrt(M/2): of these moduli, a part in 2^26 or less.
    zeros = rng.integers(1, 300)
    wide = np.hstack([A, np.zeros((len(A), zeros), A.dtype)])
    tall = np.vstack([B, np.zeros((zeros, B.shape[1]), B.dtype)])
    yield multiply(wide, tall, **options), C


@pytest.mark.parametrize("change", [permute, turn, scale, cut])
@law
@given(dtypes.flatmap(operands), methods, seeds)
def test_what_changes_operands_changes_the_product_alike(change, pair, method, seed):
    def multiply(*given, **options):
        return td.gemm(*given, method=method, **options)

    for found, expected in change(*pair, np.random.default_rng(seed), multiply):
        assert_equal(found, expected)


@law
@given(gaussian_integers(3), methods, st.sampled_from([1, -1, 0, -0.5]), st.booleans())
def test_updates_have_the_bits_of_gemm(pair, method, alpha, tiny):
    """Zeros of integers that cancel, and of results below the smallest number."""
    A, _ = pair
    A = np.vstack([A, -A, 1j * A]) * (2.0**-538 if tiny else 1)
    options = {"method": method, "alpha": alpha}
    for routine, op in ((td.herk, "C"), (td.syrk, "T")):
        expected = td.gemm(A, A, op_b=op, **options)
        columns = td.gemm(A, A, op_a=op, **options)
        for tile in (4096, 2):
            with dask.config.set({"twom-dist.largest-tile": tile}):
                assert same_bits(routine(A, **options), expected)
                assert same_bits(routine(A, op=op, **options), columns)
                assert same_bits(td.gemm(A, A, op_b=op, **options), expected)


@law
@given(operands(), methods)
def test_times_i(pair, method):
    A, B = pair
    C = td.gemm(A, B, method=method)
    iA, iC = np.empty_like(A), np.empty_like(C)
    for x, ix in ((A, iA), (C, iC)):
        ix.real, ix.imag = -x.imag, x.real
    assert_equal(td.gemm(iA, B, method=method), iC)


@law
@given(gaussian_integers(2**24), methods)
def test_integers_are_exact(pair, method):
    A, B = pair
    truth = exact(A) @ exact(B)
    C = td.gemm(A, B, method=method)
    assert_equal(C, truth.rounded())
    assert (exact(C) - truth).magnitudes().re.tolist() == np.zeros(C.shape).tolist()
    assert_equal(td.gemm(A.real, B.real), (A.real @ B.real))
    A, B = (np.rint(x / 2**14).astype("complex64") for x in pair)
    truth = (exact(A) @ exact(B)).rounded().astype("complex64")
    assert_equal(td.gemm(A, B, method=method), truth)
