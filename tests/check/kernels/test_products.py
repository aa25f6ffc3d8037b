"""Products of planes by the engines of NumPy, and by each way of the CPU."""

from contextlib import nullcontext

import pytest

from tests.support.amx import run_amx
from tests.support.contract.products import *  # noqa: F403
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.encode import encode
from twom_dist.kernels.cpu.products import blocks, multiply, packed
from twom_dist.kernels.cpu.products.amx_steps import CONFIGURATION
from twom_dist.kernels.cpu.products.int8_gemm import FLOAT32


@pytest.fixture(params=["reference", "amx", "microkernel", "gemm", "float32", "loops"])
def engine(request, monkeypatch):
    """Take each way, on every machine, with blocks that small products have many of."""
    way = request.param
    for module in (encode, multiply):
        monkeypatch.setattr(module, "has_vnni", lambda: way in ("amx", "microkernel"))
    tiles, gemms = CONFIGURATION if way == "amx" else None, way in ("gemm", "float32")
    monkeypatch.setattr(multiply, "select_tiles", lambda: tiles)
    monkeypatch.setattr(blocks, "SMALLEST_GEMM", 0 if gemms else 1 << 40)
    monkeypatch.setattr(blocks, "LARGEST_K", 1 << 11)
    monkeypatch.setattr(packed, "LONGEST_SUM", 1 << 11)
    monkeypatch.setattr(packed, "BLOCK_BYTES", 64 * 32)
    if way == "float32":
        monkeypatch.setattr(blocks, "get_gemm", lambda: FLOAT32)
    with run_amx() if way == "amx" else nullcontext():
        yield get_engine("reference" if way == "reference" else "cpu")
