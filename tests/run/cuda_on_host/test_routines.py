"""Routines by the CUDA engine on the host: the CPU's bits on every kind of device."""

import pytest

from tests.support.cases import NIGHTLY
from tests.support.contract.routines import *  # noqa: F403
from tests.support.cuda.host_device import host_engine


@pytest.fixture(
    params=[80, pytest.param(89, marks=NIGHTLY), 90, 100, 103], ids="sm_{}".format
)
def engine(host_kernels, request):
    return host_engine(host_kernels, request.param)


@pytest.fixture
def compute(cuda):
    """A call of `engine="auto"`, which is the device."""
    return lambda routine, *given, **options: routine(*given, **options)
