"""Every stage of a product by the CUDA engine on the host, of three devices."""

import pytest

from tests.support.cases import NIGHTLY
from tests.support.contract.products import *  # noqa: F403
from tests.support.contract.stages import *  # noqa: F403
from tests.support.cuda.host_device import host_engine


@pytest.fixture(params=[pytest.param(80, marks=NIGHTLY), 90, 100], ids="sm_{}".format)
def engine(host_kernels, request):
    """One with products by mma.sync, one with Hopper's, one with those of cuBLAS."""
    return host_engine(host_kernels, request.param)
