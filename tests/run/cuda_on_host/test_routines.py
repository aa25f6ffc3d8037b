"""Routines by the CUDA engine on the host: the CPU's bits on every kind of device."""

import pytest

from tests.support.cases import NIGHTLY
from tests.support.contract.routines import *  # noqa: F403

pytestmark = pytest.mark.parametrize(
    "engine",
    [
        80,
        pytest.param(89, marks=NIGHTLY),
        90,
        100,
        103,
        pytest.param(110, marks=NIGHTLY),
    ],
    indirect=True,
)


@pytest.fixture
def compute(cuda):
    return lambda routine, *given, **options: routine(*given, **options)
