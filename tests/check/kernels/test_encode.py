"""Encode by both ways of the CPU."""

import pytest

from tests.support.contract.encode import *  # noqa: F403
from tests.support.cpu_ways import take
from twom_dist.kernels import get_engine


@pytest.fixture(params=["loops", "microkernel"])
def engine(request):
    with take(request.param):
        yield get_engine("cpu")
