"""The kernels of the accurate scaling against the reference."""

import numpy as np
import pytest

from tests.kernels.cuda.operands import LAYOUTS, extreme_matrix
from tests.strategies import DTYPES, random_matrix
from twom_dist.kernels import get_engine

REFERENCE = get_engine("reference")


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_magnitudes(calls, dtype, across):
    below = np.nextafter(np.dtype(dtype).type(0).real.dtype.type(1), 0)
    ones = np.full((2, 5), below * (1 + 1j) if "complex" in dtype else below, dtype)
    operands = [lay(random_matrix(35, 70, dtype, 3.0)) for lay in LAYOUTS.values()]
    for x in (*operands, extreme_matrix(dtype), ones):
        largest = REFERENCE.largest_exponents(x)
        found = calls.magnitudes(x, largest, across)
        expected = REFERENCE.magnitudes(x, largest, side="left")
        assert (found[:, : x.shape[1]] == expected).all()
        assert not found[:, x.shape[1] :].any()
        assert found.min(initial=0) >= 0


@pytest.mark.parametrize("shape", [(1, 1), (3, 70), (70, 3), (40, 130)])
def test_maxima_of_summed_products(calls, shape):
    rng = np.random.default_rng(shape)
    bound = np.zeros(shape, np.int64)
    tiles = rng.integers(0, 2**31, (5, shape[0], shape[1] + 3), np.int32)
    for tile in tiles:
        calls.add_sums(tile[:, : shape[1]], bound)
    expected = tiles[:, :, : shape[1]].sum(axis=0, dtype=np.int64)
    assert (bound == expected).all()
    assert (calls.row_maxima(bound, across=False) == expected.max(axis=1)).all()
    assert (calls.row_maxima(bound.T, across=True) == expected.max(axis=0)).all()
