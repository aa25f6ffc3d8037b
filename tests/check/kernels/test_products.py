"""Products of planes by each way of the CPU, and by the reference."""

import dask
import pytest

from tests.support.contract.products import *  # noqa: F403
from tests.support.cpu_ways import WAYS, take
from tests.support.expect import same_bits
from tests.support.pipeline import add_both_ways
from twom_dist.kernels import get_engine


@pytest.fixture(params=WAYS)
def engine(request):
    with take(request.param):
        yield get_engine("cpu")


@pytest.mark.parametrize("level", [0, 1, 2])
def test_threads_and_quarters_by_tiles_of_amx(level):
    """Every call sets up the tiles of its thread; the last panel is not whole."""
    system, found = residue_system("2m", 2), []  # noqa: F405
    m, n, k = 100, 130, 83 if level else 607
    own = {"twom-dist.winograd-levels": level, "twom-dist.threads": 3}
    with take("amx"), dask.config.set(own):
        for engine in map(get_engine, ("cpu", "reference")):
            left, right = (draw(engine, t, k, system, t) for t in (m, n))  # noqa: F405
            before = engine.multiply(left, right, system)
            found.append([before, *add_both_ways(engine, left, right, system, before)])
    for x, y in zip(*found, strict=True):
        assert same_bits(x[..., :n], y[..., :n])
