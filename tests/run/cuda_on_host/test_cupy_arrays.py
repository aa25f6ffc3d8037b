"""CuPy's arrays, which stand on the host: no operand is copied, few waits are made."""

from collections import Counter

import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.cuda.cupy_arrays import DeviceArray, cupy_device
from tests.support.expect import same_bits
from tests.support.integers import random_integers
from tests.support.stacks import assert_each_is_as_alone, random_stack
from tests.support.strategies import random_matrix


@pytest.fixture(params=[80, 90], ids=["sm_80", "sm_90"])
def device(host_kernels, request):
    with cupy_device(host_kernels, request.param) as made:
        yield made


def multiply(device, name, *given, alike=True, **options):
    """Compare stacks of the device's arrays with the CPU's; count the launches.

    Some of the matrices that are not alike are computed alone.
    """
    routine, own = getattr(td, name), [x.view(DeviceArray) for x in given]
    device.launched.clear()
    device.allocated.clear()
    found = routine(*own, **options)
    launched = Counter(device.launched)
    assert same_bits(found.get(), routine(*given, **options))
    # What CuPy's own functions launch, and waits by its arrays.
    own = [x for x in launched if x.startswith("cupy.") or x == "get"]
    assert not own or not alike
    return launched


@cases("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("ops", ["NN", "NC", "TN", "CT"])
def test_no_operand_is_copied(device, ops, dtype):
    """Of stacks with any strides: every second matrix, those of C transposed."""
    a, b, c = (random_stack((3,), 21, 21, dtype, seed) for seed in (1, 2, 3))
    a[0, 3, 4], a[2, 5], b[1, 0, 0] = np.nan, 0, -np.inf
    a, c = np.repeat(a, 2, axis=0)[::2], c.swapaxes(1, 2)
    options = {"op_a": ops[0], "op_b": ops[1], "alpha": -2, "beta": 0.5}
    launched = multiply(device, "gemm", a, b, c, num_moduli=4, **options)
    if device.capability() == 90:
        stages = "scale_and_encode", "products_mma", "decode_and_fill"
        assert launched == dict.fromkeys(stages, 1)
        assert len(device.allocated) == 2  # one for the result


@pytest.mark.parametrize("name", ["gemm", "syrk"])
def test_the_default_looks_at_all_matrices_by_kernels(device, name):
    """One wait for all, another for octaves, and two for matrices alone."""
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 3, 40, 40)) + 1j * rng.random((2, 3, 40, 40))
    scales = np.ldexp(1.0, [[[5]], [[-70]], [[3]]])
    launched = multiply(device, name, *(x * scales, y)[: 2 - (name == "syrk")])
    for kernel in ("largest_exponents", "analyse", "find_errors"):
        assert launched[kernel] == 1
    assert launched["fetch"] == 1
    for t in (x, y):
        t[::2, :20, 20:] *= 2.0**-6
        t[::2, 20:, :20] *= 2.0**-6
        t[1] = 1
    given = (x, y)[: 2 - (name == "syrk")]
    launched = multiply(device, name, *given, alike=False)
    assert launched["fetch"] <= 1 + 1 + 2


@cases("name", ["gemm", "herk", "syrk"])
def test_matrices_of_other_moduli_are_multiplied_where_they_lie(device, name):
    """Nothing is gathered: the host sends a list of places for each residue system."""
    rng = np.random.default_rng(0)
    stacks = rng.random((3, 5, 40, 40)) + 1j * rng.random((3, 5, 40, 40))
    for x in stacks[:2]:
        # Wide ranges, by which rows are decided at once.
        x[1::2, :20, 20:] *= 2.0**-6
        x[1::2, 20:, :20] *= 2.0**-6
    stacks[0, 3, 5, 7], stacks[0, 2, 4] = np.inf, 0
    a, b, c = stacks
    given = (a, b) if name == "gemm" else (a,)
    routine = getattr(td, name)
    taken = [
        td.explain(routine, *(x[i] for x in given)).num_moduli for i in range(len(a))
    ]
    systems = len({*taken})
    assert systems > 1
    launched = multiply(device, name, *given, c, alpha=-2, beta=0.5)
    assert launched["scale_and_encode"] == launched["send"] == systems
    assert_each_is_as_alone(
        routine(*given, c, alpha=-2, beta=0.5), name, a, b, c, alpha=-2, beta=0.5
    )


@cases("options", [{"num_moduli": 4}, {"method": "2m"}])
def test_matmul_finds_updates_of_matrices_and_of_stacks(device, options):
    """Conjugates only where the host waits for the data anyway."""
    stacks = [random_stack((3,), 21, 21, "complex128", seed) for seed in (1, 2)]
    for x, y in (stacks, [x[0] for x in stacks]):
        a, b = x.view(DeviceArray), y.view(DeviceArray)
        turned, conjugate = a.swapaxes(-1, -2), a.conj().swapaxes(-1, -2)
        looks, whole = "method" in options, 0
        for other, routine in ((b, "gemm"), (turned, "syrk"), (conjugate, "herk")):
            routine = routine if looks or routine == "syrk" else "gemm"
            right = (np.array(other.get()),) if routine == "gemm" else ()
            device.allocated.clear()
            found = td.matmul(a, other, **options)
            taken = sum(device.allocated)
            whole = taken if other is b else whole
            assert (taken < whole) == (routine != "gemm")  # the planes of one operand
            assert same_bits(found.get(), getattr(td, routine)(x, *right, **options))


@cases("kind", ["float64", "complex128"])
@cases("options", [{"num_moduli": 4}, {}])
def test_a_diagonal_on_the_host_or_the_device(device, kind, options):
    a, b = random_matrix(21, 30), random_matrix(30, 18)
    w = random_matrix(1, 30, kind)[0]
    there = [x.view(DeviceArray) for x in (a, b, w)]
    expected = td.gemm(a, b, diag=w, **options)
    for given in (w, there[2]):
        assert same_bits(td.gemm(*there[:2], diag=given, **options).get(), expected)
    if kind == "float64":
        for x in (a, a.reshape(3, 7, 30)):
            found = td.herk(x.view(DeviceArray), diag=there[2], **options)
            assert same_bits(found.get(), td.herk(x, diag=w, **options))


@cases("dtype", ["int8", "uint8"])
def test_samples_are_read_as_they_are_stored(device, dtype):
    """Pairs are viewed as words of 16 bits: also time first, and of one channel."""
    x = random_integers((3, 40, 21), dtype, pairs=True)
    for given, op in (
        (x, "N"),
        (x[1], "N"),
        (x[:, :, 4].swapaxes(0, 1), "C"),
        (x.swapaxes(1, 2)[::2], "C"),
    ):
        device.launched.clear()
        found = td.integers.herk(given.view(DeviceArray), op=op, pairs=True)
        assert not [t for t in device.launched if t.startswith("cupy.")]
        assert same_bits(found.get(), td.integers.herk(given, op=op, pairs=True))
