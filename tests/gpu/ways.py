"""The device, or why there is none, and ways of multiplying that it is made to take."""

from dataclasses import replace

import pytest

from tests.support.bits import same_bits
from twom_dist.errors import EngineUnavailableError
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda.tuning import BY_CAPABILITY, tuning_for

WAYS = ("wgmma", "mma", "cublas", "float16")


def engine_or_skip():
    """Return the engine of the device; without one, its own sentence is the reason."""
    try:
        return get_engine("cuda")
    except EngineUnavailableError as error:
        pytest.skip(str(error), allow_module_level=True)


def is_fused(engine):
    return tuning_for(engine.device.capability()).fused


def matches(cp, found, expected):
    """Compare every bit of a device's array with a host's."""
    assert isinstance(found, cp.ndarray)
    return same_bits(cp.asnumpy(found), expected)


def take(way, capability, monkeypatch):
    """Make devices of a capability take a way until the test ends."""
    chosen = chosen_way(way, tuning_for(capability))
    monkeypatch.setitem(BY_CAPABILITY, capability, chosen)
    return chosen


def chosen_way(way, own):
    """Change what a device would do by itself.

    "float16" is what one of compute capability 10.3 does, integer sums included.
    """
    if way == "wgmma":
        if "wgmma" not in own.products:
            # It is written in instructions that only Hopper has.
            pytest.skip("products.cu is for compute capability 9.0")
        return replace(own, products=("wgmma",))
    if way == "mma":
        return replace(own, products=("mma",), element="int8")
    if way == "float16":
        return replace(own, products=(), element="float16", integer_sums=True)
    return replace(own, products=(), element="int8")
