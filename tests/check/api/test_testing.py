"""The measure of errors for users: true, of NumPy and of dask arrays."""

import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from twom_dist.testing import random_matrix, residual

U = 2.0**-53
# Powers of two for A and B.
SCALES = [(0, 0), (300, 0), (0, 300), (-300, 0), (0, -300), (400, -450), (-400, 440)]


def operands(dtype="complex128"):
    return (random_matrix(*x, dtype=dtype, seed=1) for x in ((20, 30), (30, 17)))


@cases("scale", SCALES)
@cases("dtype", ["float64", "complex128"])
def test_measures_do_not_see_the_scale(dtype, scale):
    A, B = operands(dtype)
    expected = residual(A, B, td.gemm(A, B))
    assert 0 < expected < 4 * U
    a, b = A * 2.0 ** scale[0], B * 2.0 ** scale[1]
    assert residual(a, b, td.gemm(a, b)) == expected


def test_every_row_has_its_own_scale():
    A, B = operands()
    C = td.gemm(A, B)
    rows = np.ldexp(1.0, np.linspace(-300, 300, len(A)).astype(int))[:, np.newaxis]
    assert residual(rows * A, B, rows * C) == residual(A, B, C)
    C[3, 4] += 1e-3 * np.linalg.norm(A[3]) * np.linalg.norm(B, axis=0).sum()
    assert residual(rows * A, B, rows * C) == pytest.approx(1e-3)
    a, b, c = (da.from_array(x, chunks=7) for x in (A, B, C))
    for given in ((a, b, c), (A, b, C), (a, B, c)):
        assert residual(*given) == pytest.approx(residual(A, B, C), rel=0.5)


@cases(("m", "k", "n"), [(0, 3, 2), (3, 0, 2), (3, 2, 0)])
def test_measures_of_nothing(m, k, n):
    A, B = np.zeros((m, k)), np.zeros((k, n))
    assert residual(A, B, np.zeros((m, n))) == 0
    assert not m * n or residual(A, B, np.ones((m, n))) > 0


@pytest.mark.filterwarnings("ignore:overflow")
@cases("scale", [2.0**600, 2.0**-600])
def test_what_cannot_be_measured_has_no_small_error(scale):
    A, B = operands("float64")
    assert not np.isfinite(residual(A * scale, B, np.zeros((len(A), B.shape[1]))))
