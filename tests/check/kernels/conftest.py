"""The engine that contracts are tested on, each stage against the reference."""

import pytest

from twom_dist.kernels import get_engine


@pytest.fixture
def engine():
    """The CPU's: what it shares with the reference holds for both."""
    return get_engine("cpu")
