"""Every stage of a product and of stacks, and all products, by kinds of devices."""

import pytest

from tests.support.cases import NIGHTLY
from tests.support.contract.products import *  # noqa: F403
from tests.support.contract.stages import *  # noqa: F403
from tests.support.contract.winograd import *  # noqa: F403
from tests.support.cuda.host_device import host_engine


@pytest.fixture(
    params=[pytest.param(80, marks=NIGHTLY), 90, 100, 103], ids="sm_{}".format
)
def engine(host_kernels, request):
    """Products by mma.sync, by Hopper's instructions, by cuBLAS in two types."""
    return host_engine(host_kernels, request.param)
