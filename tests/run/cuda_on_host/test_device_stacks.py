"""Stacks of CuPy's arrays: what is launched for them, and that no operand is copied."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.support.cuda.cupy_arrays import use_device
from tests.support.stacks import assert_each_is_as_alone, random_stack, spec_of
from twom_dist.moduli import norm_bits
from twom_dist.run.stacks import compute_stack
from twom_dist.tiles.look.certain import certain_systems
from twom_dist.tiles.look.measured import Measured
from twom_dist.tiles.spec import load_engine


@pytest.fixture(params=[80, 90], ids=["sm_80", "sm_90"])
def device(host_kernels, request, monkeypatch):
    """A device whose arrays are CuPy's."""
    return use_device(host_kernels, request.param, monkeypatch)


AT_ONCE = ["scale_and_encode", "products_mma"]


def multiply(device, name, a, b=None, c=None, **options):
    """Compute the products of a stack of the device's arrays."""
    alone = (None if x is None else x[0] for x in (a, b, c))
    spec = replace(spec_of(name, *alone, **options), engine="cuda")
    left, *others = (None if x is None else device.adopt(x) for x in (a, b, c))
    found = compute_stack(left, left if b is None else others[0], spec, others[1])
    assert found.alone == []
    return found.values.view(np.ndarray)


def of_the_library(device):
    """What CuPy's own functions launch, and waits by its arrays."""
    return [x for x in device.launched if x.startswith("cupy.") or x == "get"]


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
@pytest.mark.parametrize("ops", ["NN", "NC", "TN", "CT"])
def test_no_operand_is_copied(device, ops, dtype):
    """Of stacks with any strides: every second matrix, those of C transposed."""
    a, b, c = (random_stack((3,), 21, 21, dtype, seed) for seed in (1, 2, 3))
    a[0, 3, 4], a[2, 5], b[1, 0, 0] = np.nan, 0, -np.inf
    a, c = np.repeat(a, 2, axis=0)[::2], c.swapaxes(1, 2)
    options = {"op_a": ops[0], "op_b": ops[1], "alpha": -2, "beta": 0.5}
    options["num_moduli"] = 4
    device.launched.clear()
    found = multiply(device, "gemm", a, b, c, **options)
    assert not of_the_library(device)
    if device.capability() == 90:
        assert device.launched == [*AT_ONCE, "decode", "fill_product"]
        # One for the result.
        assert len(device.allocated) == 2
    assert_each_is_as_alone(found, "gemm", a, b, c, **options)


@pytest.mark.parametrize("uplo", ["full", "lower", "upper"])
@pytest.mark.parametrize(("name", "op"), [("herk", "C"), ("syrk", "T"), ("herk", "N")])
def test_updates_of_pieces_of_a_stack(device, name, op, uplo, monkeypatch):
    monkeypatch.setattr("twom_dist.kernels.cuda.engine.LARGEST_STACK", 2)
    a, c = (random_stack((3,), 70, 70, "complex128", seed) for seed in (1, 2))
    a[2, 3, 4] = np.inf
    options = {"op": op, "uplo": uplo, "beta": 2, "num_moduli": 3}
    found = multiply(device, name, a, None, c, **options)
    assert not of_the_library(device)
    if device.capability() == 90:
        launched = [x.removesuffix("_mma") for x in device.launched]
        assert launched == 2 * ["scale_and_encode", "products", "decode_and_close"]
    assert_each_is_as_alone(found, name, a, a, c, **options)


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
    for kernel in ("summarise", "error_sums", "largest_sums"):
        assert launched[kernel] == 1
    assert launched["fetch"] == 2
    assert_each_is_as_alone(found, name, *(given if name == "gemm" else given * 2))


@pytest.mark.parametrize("name", ["gemm", "syrk"])
def test_some_matrices_are_looked_at_once_more_where_they_lie(device, name):
    """Each step takes one wait, and octaves a copy of those that they are of."""
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 6, 40, 40)) + 1j * rng.random((2, 6, 40, 40))
    # Open pairs in some, nothing to ask about others.
    for t in (x, y):
        t[::2, :20, 20:] *= 2.0**-6
        t[::2, 20:, :20] *= 2.0**-6
        t[1] = 1
    given = (x, y)[: 2 - (name == "syrk")]
    spec = replace(spec_of(name, *(t[0] for t in given)), equilibrate=False)
    found = {}
    for engine in ("cpu", "cuda"):
        own = replace(spec, engine=engine)
        a, *b = map(device.adopt, given) if engine == "cuda" else given
        rows = [a, b[0].swapaxes(1, 2)] if b else [a]
        device.launched.clear()
        found[engine] = certain_systems(a, *(b or [a]), measure(rows, own), own)
    assert found["cuda"] == found["cpu"]
    assert None not in found["cpu"]
    assert len(set(found["cpu"])) > 1
    launched = Counter(device.launched)
    assert launched["octaves"] == launched["count_octaves"] == len(given)
    assert launched["fetch"] == 1 + 1


def measure(rows, spec):
    bits = norm_bits(spec.k)
    known = load_engine(spec).survey(rows, bits, totals=True, columns=False)
    return [Measured(*x) for x in known]
