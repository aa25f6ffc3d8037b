"""Every stage of a product and of stacks, and all products, by kinds of devices."""

import pytest

from tests.support.cases import NIGHTLY
from tests.support.contract.products import *  # noqa: F403
from tests.support.contract.stages import *  # noqa: F403

# Products by mma.sync, by instructions of Hopper, by cuBLAS in two types, in cuTile.
pytestmark = pytest.mark.parametrize(
    "engine",
    [*(pytest.param(x, marks=NIGHTLY) for x in (80, 107)), 90, 100, 103, 110],
    indirect=True,
)
