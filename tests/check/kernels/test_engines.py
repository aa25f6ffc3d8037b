"""Every stage of a product by the engines of NumPy, and threads of the CPU."""

import dask
import pytest

from tests.support.bits import same_bits
from tests.support.contract.products import *  # noqa: F403
from tests.support.contract.stages import *  # noqa: F403
from tests.support.pipeline import run_stages
from tests.support.strategies import random_matrix
from twom_dist.kernels import get_engine
from twom_dist.moduli import residue_system


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_nothing(threads):
    engine, system = get_engine("cpu"), residue_system("2m", 3)
    x, y = random_matrix(600, 40, seed=1), random_matrix(530, 40, seed=2)
    with dask.config.set({"twom-dist.threads": 3}):
        expected = run_stages(engine, x, y, system)
    with dask.config.set({"twom-dist.threads": threads}):
        found = run_stages(engine, x, y, system)
    assert all(same_bits(found[name], expected[name]) for name in expected)
