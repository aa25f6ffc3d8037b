"""Updates that contractions of CuPy arrays are, and the waits for finding them."""

import numpy as np
import pytest

from tests.support.cuda.cupy_arrays import use_device
from tests.support.strategies import random_matrix
from twom_dist.contract import pair
from twom_dist.contract.layout import lay_out
from twom_dist.contract.subscripts import matmul_terms
from twom_dist.problem.choice import Choice


@pytest.fixture
def device(monkeypatch):
    """A device that launches nothing of ours."""
    return use_device(None, 90, monkeypatch)


def find(device, x, y, **options):
    """Name the update that x @ y is, and count waits."""
    x, y = (device.adopt(t) for t in (x, y))
    (left, right), output = matmul_terms(x.shape, y.shape)
    layout = lay_out(left, right, output, (x.shape, y.shape), (x.strides, y.strides))
    device.launched.clear()
    found = pair._find_twin(x, y, layout, Choice.of(method="2m", **options))
    return found, device.launched.count("get")


def test_entries_are_compared_only_where_that_may_pay(device):
    x, y = random_matrix(20, 20), random_matrix(20, 20, seed=1)
    stack = np.stack([x, y])
    # A few entries, then all.
    assert find(device, x, x.conj().T) == ("herk", 2)
    assert find(device, x.conj().T, x) == ("herk", 2)
    assert find(device, stack, stack.conj().swapaxes(1, 2)) == ("herk", 2)
    assert find(device, x, y.T) == (None, 1)
    # Stored as nothing that conj() returns, or the same memory.
    assert find(device, x, y) == find(device, x.T, y.T) == (None, 0)
    assert find(device, x, x) == (None, 0)
    assert find(device, x, x.T) == ("syrk", 0)
    # The product itself does not wait.
    assert find(device, x, x.conj().T, num_moduli=16) == (None, 0)
