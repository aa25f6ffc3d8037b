"""The check of tensor cores: what is not exact on a chip is not taken."""

import numpy as np

from tests.support.cuda.host_device import HostDevice
from tests.support.expect import raises
from twom_dist.errors import KernelError
from twom_dist.kernels.cuda.cublas import choose_exact


class Chip(HostDevice):
    """A device whose products of one type go wrong in some way."""

    def __init__(self, **faults):
        super().__init__(None, 103)
        self.faults = faults

    def multiply(self, x, y, sums):
        super().multiply(x, y, sums)
        self.faults.get(str(x.dtype), lambda _: None)(sums)


def refuse(_):
    raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED")


def lose_a_bit(sums):
    """Keep 23 bits, as accumulators may that align products before they add."""
    sums[...] = np.trunc(sums / 2) * 2


def saturate(sums):
    np.minimum(sums, (1 << 30) - 1, out=sums)


def of_shape(shape):
    """Be wrong for some shapes alone: ragged, long, or of a batch."""

    def add_one(sums):
        if sums.shape == shape:
            sums[-1, -1, -1] += 1

    return add_one


def test_what_is_exact_is_taken():
    for element, fault, taken in (
        ("int8", saturate, "float16"),
        ("int8", of_shape((1, 272, 1040)), "float16"),
        ("float16", lose_a_bit, "int8"),
    ):
        assert choose_exact(Chip(**{element: fault}), element) == taken
    with raises(KernelError, "no-exact-product"):
        choose_exact(Chip(int8=lose_a_bit, float16=refuse), "int8")
