"""Every stage of a product and of stacks, and all products, by kinds of devices."""

import pytest

from tests.support.bits import same_bits
from tests.support.cases import NIGHTLY
from tests.support.contract.products import *  # noqa: F403
from tests.support.contract.stages import *  # noqa: F403
from tests.support.contract.winograd import *  # noqa: F403
from tests.support.cuda.host import HostKernels
from tests.support.cuda.host_device import host_engine
from tests.support.pipeline import dtype_for, run_stages
from tests.support.strategies import random_matrix
from twom_dist.kernels import get_engine
from twom_dist.moduli import residue_system


@pytest.fixture(
    params=[pytest.param(80, marks=NIGHTLY), 90, 100, 103], ids="sm_{}".format
)
def engine(host_kernels, request):
    """Products by mma.sync, by Hopper's instructions, by cuBLAS in two types."""
    return host_engine(host_kernels, request.param)


@pytest.mark.parametrize("choice", [("2m", 16), ("hybrid", 22), ("real", 15)])
def test_systems_that_are_constants_of_a_text_give_the_bits_of_variables(
    kept, host_kernels, choice
):
    """As on a device; those tests that share what is built have variables."""
    engine = host_engine(HostKernels(kept, specialised=True))
    system, dtype = residue_system(*choice), dtype_for(choice[0])
    x, y = (random_matrix(rows, 9, dtype, 2.0, rows) for rows in (5, 7))
    found, expected = (
        run_stages(own, x, y, system) for own in (engine, get_engine("cpu"))
    )
    assert all(same_bits(found[name], expected[name]) for name in expected)
