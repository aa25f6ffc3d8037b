"""Stacks of CuPy's arrays: what is launched for them, and that no operand is copied."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.cuda.cupy_arrays import use_device
from tests.support.stacks import assert_each_is_as_alone, random_stack, spec_of
from twom_dist.run.stacks import compute_stack


@pytest.fixture(params=[80, 90], ids=["sm_80", "sm_90"])
def device(host_kernels, request, monkeypatch):
    """A device whose arrays are CuPy's."""
    return use_device(host_kernels, request.param, monkeypatch)


def multiply(device, name, a, b=None, **options):
    """Compute the products of a stack of the device's arrays."""
    spec = spec_of(name, a[0], None if b is None else b[0], **options)
    left = device.adopt(a)
    right = left if b is None else device.adopt(b)
    return compute_stack(left, right, replace(spec, engine="cuda"))


def is_of_the_library(name):
    return name.startswith("cupy.")


@pytest.mark.parametrize("op_b", ["N", "T"])
def test_no_operand_is_copied(device, op_b):
    a, b = (random_stack((3,), 20, 20, "complex128", seed) for seed in (1, 2))
    # Every second matrix: the views of a stack have any strides.
    a = np.repeat(a, 2, axis=0)[::2]
    found = multiply(device, "gemm", a, b, op_b=op_b, num_moduli=4)
    assert not [*filter(is_of_the_library, device.launched)]
    values = found.values.view(np.ndarray)
    assert_each_is_as_alone(values, "gemm", a, b, op_b=op_b, num_moduli=4)
