"""Decode by the engines of NumPy, and errors within their bounds."""

import numpy as np
import pytest

import twom_dist as td
from tests.support.contract.decode import *  # noqa: F403
from tests.support.oracle import ExactProduct


def test_errors_of_both_operands_are_bounded_together():
    """Every entry of either is rounded from 1.5 to 2, at the smallest scale."""
    x = np.full((1, 11), 1.5)
    found = ExactProduct(x, x.T).normwise_error(td.gemm(x, x.T, num_moduli=1))
    assert found == pytest.approx(7 / 9)
    assert found <= td.explain(td.gemm, x, x.T, num_moduli=1).error_bound < 0.9
