"""The CUDA kernels on the host."""

from unittest import mock

import pytest

from tests.support.cuda.host import COMPILER, HostKernels
from tests.support.cuda.host_device import host_engine
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda import tuning
from twom_dist.run import prepared
from twom_dist.tiles.cache import encoded_tiles


@pytest.fixture(scope="session")
def host_kernels(kept):
    if COMPILER is None:
        # A program, not a Python package; CI installs it.
        pytest.skip("g++ is not installed: the kernels' text cannot run on the host")
    return HostKernels(kept)


@pytest.fixture
def engine(host_kernels, request):
    """The CUDA engine of Hopper, or of the device that a test names."""
    return host_engine(host_kernels, getattr(request, "param", 90))


@pytest.fixture(autouse=True)
def old_driver():
    """Have cuBLAS multiply on 10.0 and 10.3: the driver does not know Tile IR."""
    with mock.patch.dict(tuning.MEASURED):
        for capability in (100, 103):
            tuning.set_cublas(capability, 0)
        yield


@pytest.fixture(autouse=True)
def nothing_remembered():
    """Forget earlier products, whose moduli are guessed next time, and their tiles."""
    prepared._prepared.clear()
    encoded_tiles.clear()


@pytest.fixture
def cuda(engine, monkeypatch):
    """Make engine="auto" the CUDA engine, for NumPy arrays."""
    import twom_dist.kernels.registry as registry
    import twom_dist.tiles.spec as spec

    def load(name):
        return engine if name == "cuda" else get_engine(name)

    for module in (spec, prepared):
        monkeypatch.setattr(module, "get_engine", load)
    monkeypatch.setitem(registry._OF_FAMILY, "numpy", "cuda")
    return engine
