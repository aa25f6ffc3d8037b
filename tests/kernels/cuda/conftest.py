"""The CUDA kernels on the host."""

import pytest

from tests.kernels.cuda.calls import Calls
from tests.kernels.cuda.host import COMPILER, HostKernels


@pytest.fixture(scope="session")
def host_kernels(tmp_path_factory: pytest.TempPathFactory) -> HostKernels:
    """Kernels built by the host's compiler, each once a session."""
    if COMPILER is None:
        pytest.skip("g++ is not installed: the kernels' text cannot run on the host")
    return HostKernels(tmp_path_factory.mktemp("cuda"))


@pytest.fixture(scope="session")
def calls(host_kernels: HostKernels) -> Calls:
    """One call for each kernel."""
    return Calls(host_kernels)
