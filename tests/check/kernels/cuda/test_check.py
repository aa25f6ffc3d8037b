"""The check of tensor cores: what is not exact on a chip is not taken."""

import numpy as np
import pytest

from tests.support.cuda.host_device import HostDevice
from tests.support.expect import raises
from twom_dist.errors import KernelError
from twom_dist.kernels.cuda import device as device_module
from twom_dist.kernels.cuda.check import choose_exact
from twom_dist.kernels.cuda.device import CudaDevice


class Chip(HostDevice):
    """A device whose products go wrong in some way."""

    def __init__(self, **faults):
        super().__init__(None, 103)
        self.faults = faults

    def multiply_int8(self, x, y, sums):
        super().multiply_int8(x, y, sums)
        self.faults.get("int8", lambda _: None)(sums)

    def multiply_float16(self, x, y, sums):
        super().multiply_float16(x, y, sums)
        self.faults.get("float16", lambda _: None)(sums)


def refuse(_):
    raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED")


def lose_a_bit(sums):
    """Keep 23 bits, as accumulators may that align products before they add."""
    sums[...] = np.trunc(sums / 2) * 2


def saturate(sums):
    np.minimum(sums, (1 << 30) - 1, out=sums)


@pytest.mark.parametrize("fault", [refuse, lose_a_bit, saturate])
def test_what_is_exact_is_taken(fault):
    assert choose_exact(Chip(), "int8") == "int8"
    assert choose_exact(Chip(), "float16") == "float16"
    assert choose_exact(Chip(int8=fault), "int8") == "float16"
    assert choose_exact(Chip(int8=fault), "float16") == "float16"
    if fault is not saturate:
        assert choose_exact(Chip(float16=fault), "float16") == "int8"
        with raises(KernelError, "no-exact-product"):
            choose_exact(Chip(int8=fault, float16=fault), "int8")


@pytest.mark.parametrize("shape", [(1, 48, 80), (1, 272, 1040), (3, 256, 256)], ids=str)
def test_what_is_wrong_for_some_shapes_alone_is_not_taken(shape):
    """As int8 of some releases of cuBLAS: ragged, long, or of a batch."""

    def add_one(sums):
        if sums.shape == shape:
            sums[-1, -1, -1] += 1

    assert choose_exact(Chip(int8=add_one), "int8") == "float16"
    assert choose_exact(Chip(float16=add_one), "float16") == "int8"


def test_each_device_is_checked_once_and_none_that_takes_our_kernel(cupy, monkeypatch):
    checked, number = [], [0]

    def check(device, preferred):
        checked.append((number[0], preferred))
        return "int8"

    monkeypatch.setattr(device_module, "choose_exact", check)
    monkeypatch.setattr(device_module, "current_device", lambda: number[0])
    capability = {0: 90, 1: 103, 2: 100, 3: 80}
    device = CudaDevice()
    monkeypatch.setattr(device, "capability", lambda: capability[number[0]])
    for number[0] in (0, 1, 2, 3, 0, 1, 2, 3):
        assert device.element() == "int8"
    assert checked == [(1, "float16"), (2, "int8")]
    # Digits of magnitudes are multiplied by cuBLAS wherever our kernels run.
    for number[0] in (0, 1, 2, 3, 0, 1, 2, 3):
        assert device.exact_element() == "int8"
    assert checked[2:] == [(0, "int8"), (3, "int8")]
