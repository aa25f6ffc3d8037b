"""The norm kernels on the host: their contract, and cuts that nobody sees."""

from itertools import product

import numpy as np
import pytest

from tests.support.contract.norms import *  # noqa: F403
from tests.support.contract.norms import REFERENCE
from tests.support.cuda.operands import LAYOUTS
from tests.support.strategies import DTYPES, random_matrix


def assert_norms_agree(calls, x, own, **mapping):
    """Compare with the reference, whatever the blocks of a kernel take."""
    largest = REFERENCE.largest_exponents(x)
    assert (calls.largest_exponents(own, **mapping) == largest).all()
    for bits in (20, 11):
        expected = np.array(REFERENCE.row_sums(x, largest, bits))
        assert (calls.row_sums(own, largest, bits, **mapping) == expected).all()
        squares = calls.square_sums(own, largest, bits, **mapping)
        assert (squares == expected[0]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_of_every_layout_along_and_across_rows(calls, dtype):
    x = random_matrix(37, 75, dtype, 4.0)
    for layout, across in product(LAYOUTS.values(), (False, True)):
        assert_norms_agree(calls, x, layout(x), across=across)


@pytest.mark.parametrize("span", [1, 7, 32, 5000])
def test_norms_do_not_see_the_cuts(calls, span):
    x = random_matrix(9, 301, "complex64", 2.0)
    for across in (False, True):
        assert_norms_agree(calls, x, x, span=span, across=across)
