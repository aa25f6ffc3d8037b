"""The kernels that bound products by those of magnitudes, against the reference."""

from itertools import product

import numpy as np
import pytest

from tests.kernels.cuda.operands import LAYOUTS, extreme_matrix
from tests.strategies import DTYPES, random_matrix
from twom_dist.kernels import get_engine

REFERENCE = get_engine("reference")


@pytest.mark.parametrize("dtype", DTYPES)
def test_magnitudes(calls, dtype):
    below = np.nextafter(np.dtype(dtype).type(0).real.dtype.type(1), 0)
    ones = np.full((2, 5), below * (1 + 1j) if "complex" in dtype else below, dtype)
    for x in (random_matrix(35, 70, dtype, 3.0), extreme_matrix(dtype), ones):
        largest = REFERENCE.largest_exponents(x)
        expected = REFERENCE.magnitudes(x, largest, side="left")
        for layout, across in product(LAYOUTS.values(), (False, True)):
            found = calls.magnitudes(layout(x), largest, across)
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
