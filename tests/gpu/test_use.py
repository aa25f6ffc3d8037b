"""Blocks in which CuPy's products are ours, on a device."""

import numpy as np
import pytest

import twom_dist as td
from tests.gpu.ways import engine_or_skip
from tests.support.strategies import random_matrix

pytestmark = pytest.mark.gpu

engine_or_skip()


def test_products_have_the_bits_of_ours():
    cp = pytest.importorskip("cupy")
    x, y = cp.asarray(random_matrix(90, 70)), cp.asarray(random_matrix(70, 50, seed=1))
    options = {"method": "2m", "num_moduli": 15}
    expected = td.matmul(x, y, **options)
    out = cp.empty_like(expected)
    with td.use(strict=True, **options) as used:
        found = [x @ y, x.dot(y), cp.matmul(x, y), cp.dot(x, y), np.matmul(x, y)]
        found += [cp.tensordot(x, y, 1), np.einsum("ij,jk", x, y)]
        found += [cp.matmul(x, y, out=out), out]
    assert (used.ours, used.left) == (8, 0)
    assert all((one == expected).all() for one in found)
    assert not (x @ y == expected).all()
