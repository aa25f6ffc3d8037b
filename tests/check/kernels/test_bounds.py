"""Products of magnitudes: sums and largest terms agree, and with integers."""

import numpy as np
import pytest

from tests.support.bounds import SHAPES, assert_bounds_agree
from twom_dist.kernels import get_engine
from twom_dist.moduli import ZERO_ROW


@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_of_every_shape(shape):
    assert_bounds_agree(get_engine("cpu"), *shape)


def test_sums_are_those_of_integers(engine):
    x, y = np.array([[0x3F80, 0x3F35, 0x3C00]], "u2"), np.array([[0x3F80] * 3], "u2")
    # floor(8), floor(5.66) and floor(1/16), times 8.
    assert engine.multiply_magnitudes(x, y, 3).tolist() == [[8 * (8 + 5)]]


def test_rows_that_never_meet_have_no_term(engine):
    x = np.array([[0x3F80, 0, 0x0080], [0, 0x3F80, 0]], np.uint16)
    y = np.array([[0, 0, 0x0080], [0, 0x3F00, 0x3F00], [0x3F80, 0, 0]], np.uint16)
    found = engine.largest_terms(x, y, np.ones((2, 3), bool))
    assert found.tolist() == [[-252, -127, 0], [ZERO_ROW, -1, ZERO_ROW]]
