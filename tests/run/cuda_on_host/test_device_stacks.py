"""Stacks of CuPy's arrays: what is launched for them, and that no operand is copied."""

from collections import Counter
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


def of_the_library(device):
    """What CuPy's own functions launch, and waits by its arrays."""
    return [x for x in device.launched if x.startswith("cupy.") or x == "get"]


@pytest.mark.parametrize("op_b", ["N", "T"])
def test_no_operand_is_copied(device, op_b):
    a, b = (random_stack((3,), 20, 20, "complex128", seed) for seed in (1, 2))
    # Every second matrix: the views of a stack have any strides.
    a = np.repeat(a, 2, axis=0)[::2]
    found = multiply(device, "gemm", a, b, op_b=op_b, num_moduli=4)
    assert not of_the_library(device)
    values = found.values.view(np.ndarray)
    assert_each_is_as_alone(values, "gemm", a, b, op_b=op_b, num_moduli=4)


@pytest.mark.parametrize("name", ["gemm", "syrk"])
def test_the_default_looks_at_all_matrices_by_kernels(device, name):
    """Every matrix is asked for its rounding errors: one wait for all, and another."""
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 40, 40)) + 1j * rng.random((2, 40, 40))
    scales = np.ldexp(1.0, [[[5]], [[-70]], [[3]]])
    given = (x * scales, y * scales)[: 2 - (name == "syrk")]
    found = multiply(device, name, *given)
    assert not of_the_library(device)
    launched = Counter(device.launched)
    assert launched["largest_exponents"] == launched["sums_and_extremes"] == 1
    assert launched["error_sums"] == len(given)
    assert launched["summarise"] == launched["largest_sums"] == 1
    assert launched["fetch"] == 2
    values = found.values.view(np.ndarray)
    assert_each_is_as_alone(values, name, *(given if name == "gemm" else given * 2))
