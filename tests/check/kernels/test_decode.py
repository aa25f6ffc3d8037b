"""Decode by the engines of NumPy, and errors that stay within their bounds."""

import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.contract.decode import *  # noqa: F403
from tests.support.contract.hexagonal import *  # noqa: F403
from tests.support.oracle import ExactProduct
from tests.support.strategies import random_matrix


@cases("phi", [0, 1, 4])
@cases("count", [3, 8, 14, 16, 20])
def test_errors_of_eisenstein_integers_are_within_the_bound(count, phi):
    """That of Gaussian integers with as large a product of moduli."""
    A, B = (random_matrix(20, 20, phi=phi, seed=[count, s]) for s in (1, 2))
    options = {"method": "eisenstein", "num_moduli": count}
    error = ExactProduct(A, B).normwise_error(td.gemm(A, B, **options))
    assert error <= td.explain(td.gemm, A, B, **options).error_bound


def test_errors_of_both_operands_are_bounded_together():
    """Every entry of either is rounded from 1.5 to 2, at the smallest scale."""
    x = np.full((1, 11), 1.5)
    found = ExactProduct(x, x.T).normwise_error(td.gemm(x, x.T, num_moduli=1))
    assert found == pytest.approx(7 / 9)
    assert found <= td.explain(td.gemm, x, x.T, num_moduli=1).error_bound < 0.9


def test_real_integers_are_exact():
    """They lie on the lattice; imaginary ones do not."""
    A, B = np.random.default_rng(1).integers(-(2**20), 2**20, (2, 9, 9)) + 0j
    assert (td.gemm(A, B, method="eisenstein") == A @ B).all()
