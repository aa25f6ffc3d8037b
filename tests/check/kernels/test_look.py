"""Looks by the CPU's engine, in one piece and in many."""

import pytest

from tests.support.contract.look import *  # noqa: F403
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.analysis import rows


@pytest.fixture(params=["cpu", "pieces"])
def engine(request, monkeypatch):
    if request.param == "pieces":
        monkeypatch.setattr(rows, "_ALL", 10**6)
        monkeypatch.setattr(rows, "_SQUARES", 10**6)
    return get_engine("cpu")
