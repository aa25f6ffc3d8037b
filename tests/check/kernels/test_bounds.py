"""Products of magnitudes: digits, sums and largest terms agree, and with integers."""

import numpy as np
import pytest

from tests.support.bounds import (
    SHAPES,
    assert_bounds_agree,
    assert_terms_are_of_what_meets,
)
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.look import magnitudes as cpu_magnitudes
from twom_dist.moduli import ZERO_ROW

ONE, ROOT_HALF, SMALL = 0x3F80, 0x3F35, 0x3C00  # 1, 0.7070..., 2^-7


@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_of_every_shape(shape):
    assert_bounds_agree(get_engine("cpu"), *shape)


def test_products_do_not_see_the_pieces(monkeypatch):
    monkeypatch.setattr(cpu_magnitudes, "LARGEST_K", 32)
    assert_bounds_agree(get_engine("cpu"), 40, 30, 100)


def test_digits_are_those_of_integers(engine):
    x, y = np.array([[ONE, ROOT_HALF, SMALL, 0]], "u2"), np.array([[ONE] * 4], "u2")
    high = [64, 45, 0]
    low = [0, int(0.70703125 * 2**13) % 128, 64]
    assert engine.multiply_digits(x, y, 0).tolist() == [[3]]
    assert engine.multiply_digits(x, y, 1).tolist() == [[64 * sum(high)]]
    expected = 128 * 64 * sum(high) + 64 * sum(low)
    assert engine.multiply_digits(x, y, 2).tolist() == [[expected]]


def test_sums_are_those_of_integers(engine):
    x, y = np.array([[ONE, ROOT_HALF, SMALL]], "u2"), np.array([[ONE] * 3], "u2")
    sums, terms = engine.bound_pairs(x, y, np.array([0]), np.array([0]), 13)
    assert sums.tolist() == [2**13 * (2**13 + int(0.70703125 * 2**13) + 2**6)]
    assert terms.tolist() in ([0], [ZERO_ROW])  # no larger than the sum


def test_rows_that_never_meet_have_no_term(engine):
    assert_terms_are_of_what_meets(engine)
