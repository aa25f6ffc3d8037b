"""Products of planes by the engines of NumPy, and by each way of the CPU."""

from contextlib import nullcontext

import pytest

from tests.support.amx import run_amx
from tests.support.contract.products import *  # noqa: F403
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.encode import encode
from twom_dist.kernels.cpu.products import blocks, multiply, packed
from twom_dist.kernels.cpu.products.amx_steps import CONFIGURATION


@pytest.fixture(params=["reference", "amx", "microkernel", "gemm", "loops"])
def engine(request, monkeypatch):
    """Take each way, on every machine, with blocks that small products have many of."""
    way = request.param
    for module in (encode, multiply):
        monkeypatch.setattr(module, "has_vnni", lambda: way in ("amx", "microkernel"))
    tiles = CONFIGURATION if way == "amx" else None
    monkeypatch.setattr(multiply, "select_tiles", lambda: tiles)
    monkeypatch.setattr(blocks, "SMALLEST_GEMM", 0 if way == "gemm" else 1 << 40)
    monkeypatch.setattr(blocks, "LARGEST_K", 1 << 11)
    monkeypatch.setattr(packed, "LONGEST_SUM", 1 << 11)
    monkeypatch.setattr(packed, "BLOCK_BYTES", 64 * 32)
    with run_amx() if way == "amx" else nullcontext():
        yield get_engine("reference" if way == "reference" else "cpu")
