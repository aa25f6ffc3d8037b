"""A diagonal between CuPy's arrays: A is scaled whole, and the bits are the CPU's."""

import pytest

import twom_dist as td
from tests.support.cuda.cupy_arrays import use_device
from tests.support.strategies import random_matrix
from twom_dist.problem import matrices


@pytest.fixture
def device(host_kernels, monkeypatch):
    """A device whose arrays are CuPy's."""
    monkeypatch.setattr(matrices, "_check_device", lambda arrays: None)
    return use_device(host_kernels, 90, monkeypatch)


@pytest.mark.parametrize("kind", ["float64", "complex128"])
@pytest.mark.parametrize("options", [{"num_moduli": 4}, {}])
def test_bits_are_those_of_the_cpu(device, kind, options):
    a, b = random_matrix(21, 30), random_matrix(30, 18)
    w = random_matrix(1, 30, kind)[0]
    left, right, own = map(device.adopt, (a, b, w))
    for given in (w, own):  # on the host or on the device
        found = td.gemm(left, right, diag=given, **options)
        assert (found.get() == td.gemm(a, b, diag=w, **options)).all()
    if kind == "float64":
        for x in (a, a.reshape(3, 7, 30)):
            found = td.herk(device.adopt(x), diag=own, **options).get()
            assert (found == td.herk(x, diag=w, **options)).all()
