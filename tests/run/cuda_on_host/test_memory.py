"""What a product allocates of a device that others use as well."""

import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cuda.host_device import FUSED_OR_NOT
from tests.support.expect import raises
from tests.support.strategies import random_matrix
from twom_dist.errors import MemoryLimitError
from twom_dist.run import recipes


@FUSED_OR_NOT
def test_a_product_takes_of_what_is_free(cuda, monkeypatch):
    A, B = random_matrix(40, 1000), random_matrix(1000, 40)
    device = cuda.device
    whole = td.gemm(A, B, num_moduli=2)
    assert device.asked == 0
    largest = max(device.allocated)
    device.allocated.clear()
    device.free = 400 << 10
    monkeypatch.setattr(device, "total_bytes", lambda: 8 << 20)
    recipes._recipes.clear()  # as on another device
    assert same_bits(td.gemm(A, B, num_moduli=2), whole)
    assert device.asked > 0
    assert max(device.allocated) <= largest // 4


@pytest.mark.parametrize(("stack", "lazy"), [((), 0), ((4,), 0), ((4,), 1)])
def test_a_full_device_is_tried_with_smaller_tiles(cuda, stack, lazy, monkeypatch):
    A, B = random_matrix(40, 1000).reshape(*stack, -1, 1000), random_matrix(1000, 40)
    device, empty = cuda.device, cuda.device.empty
    monkeypatch.setattr(device, "total_bytes", lambda: 8 << 20)
    whole = td.gemm(A, B, num_moduli=2)
    most = max(device.allocated) - 1

    def fill(shape, dtype):
        if np.prod(shape, dtype=int) * np.dtype(dtype).itemsize > most:
            raise MemoryLimitError("full", "", "device-memory")
        return empty(shape, dtype)

    monkeypatch.setattr(device, "empty", fill)
    given = da.from_array(A, chunks=-1) if lazy else A
    found = td.gemm(given, B, num_moduli=2)
    assert same_bits(found.compute(scheduler="sync") if lazy else found, whole)
    most = 100
    with raises(MemoryLimitError, "device-memory"):
        td.gemm(A, B, num_moduli=2)
