"""The device, or why there is none, and ways of multiplying that it is made to take."""

from dataclasses import replace

import pytest

from tests.support.expect import same_bits
from twom_dist.errors import EngineUnavailableError
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda.tile_check import explain_no_tiles
from twom_dist.kernels.cuda.tuning import BY_CAPABILITY, MEASURED, TILES, tuning_for

WAYS = ("wgmma", "mma256", "mma", "tile", "tile16", "cublas", "float16")


def engine_or_skip():
    """Return the engine of the device; without one, its own sentence is the reason."""
    try:
        return get_engine("cuda")
    except EngineUnavailableError as error:
        pytest.skip(str(error), allow_module_level=True)


def matches(cp, found, expected):
    assert isinstance(found, cp.ndarray)
    return same_bits(cp.asnumpy(found), expected)


def take(way, device, monkeypatch):
    """Make devices of the capability of one take a way until the test ends.

    "float16" is what one of compute capability 10.3 does, integer sums included.
    """
    capability = device.capability()
    monkeypatch.delitem(MEASURED, capability, raising=False)
    own = tuning_for(capability)
    if way == "wgmma" and "wgmma" not in own.products:
        # It is written in instructions that only Hopper has.
        pytest.skip("products.cu is for compute capability 9.0")
    changes = {
        "wgmma": {"products": ("wgmma",)},
        **{x: {"products": (x,), "element": "int8"} for x in ("mma256", "mma", *TILES)},
        "cublas": {"products": (), "element": "int8"},
        "float16": {"products": (), "element": "float16", "integer_sums": True},
    }
    monkeypatch.setitem(BY_CAPABILITY, capability, replace(own, **changes[way]))
    if why := explain_no_tiles(device):
        # The driver is too old, or lacks the compiler of Tile IR.
        assert "wrong" not in why
        pytest.skip(why)
