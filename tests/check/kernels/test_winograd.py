"""Winograd's algorithm by the CPU's engine, and settings that say nothing."""

import dask
import numpy as np

import twom_dist as td
from tests.support.cases import cases
from tests.support.contract.winograd import *  # noqa: F403
from tests.support.expect import raises
from twom_dist.errors import PlanError


@cases("value", [3, -1, True, 1.5, "two"])
def test_a_level_that_does_not_exist(value):
    own = dask.config.set({"twom-dist.winograd-levels": value})
    with own, raises(PlanError, "setting"):
        td.gemm(np.ones((3, 3)), np.ones((3, 3)))
