"""Winograd's algorithm by the engines of NumPy, and when it is taken."""

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.contract.products import draw
from tests.support.contract.winograd import *  # noqa: F403
from tests.support.expect import raises
from twom_dist.errors import PlanError
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.products import multiply
from twom_dist.kernels.cpu.threads import limit_threads
from twom_dist.kernels.winograd import LEFT, RESULT, RIGHT, choose_levels
from twom_dist.moduli import residue_system


def levels(count):
    return dask.config.set({"twom-dist.winograd-levels": count})


def test_the_form_is_that_of_a_product_in_quarters():
    quarters = np.eye(4, dtype=int).reshape(2, 2, 2, 2)
    exact = np.einsum("ilab,ljcd->ijabcd", quarters, quarters).reshape(4, 4, 4)
    assert (np.einsum("qt,ta,tb->qab", RESULT, LEFT, RIGHT) == exact).all()


@pytest.mark.parametrize("value", [3, -1, True, 1.5, "two"])
def test_a_level_that_does_not_exist(value):
    with levels(value), raises(PlanError, "setting"):
        td.gemm(np.ones((3, 3)), np.ones((3, 3)))


def test_levels_are_chosen_by_size_and_setting():
    grain, crossovers = (16, 16, 4), (400.0, 1300.0)
    for setting, shape, level in (
        (None, (512, 4096, 4096), 1),
        (None, (4096,) * 3, 2),
        (None, (1024,) * 3, 0),
        (0, (512, 4096, 4096), 0),
        (2, (49, 64, 4096), 2),
        (2, (33, 64, 4096), 1),
        (2, (16, 64, 4096), 0),
    ):
        with levels(setting):
            assert choose_levels(shape, grain, crossovers) == level


@pytest.mark.parametrize(("cores", "taken"), [(2, [1]), (16, [])])
def test_many_cores_take_no_level_unasked(cores, taken, monkeypatch):
    found, plain = [], multiply.multiply_in_quarters

    def record(*given):
        found.append(given[-1])
        plain(*given)

    monkeypatch.setattr(multiply, "has_vnni", lambda: True)  # no others take a level
    monkeypatch.setattr(multiply, "multiply_in_quarters", record)
    monkeypatch.setattr(multiply, "CROSSOVERS", (1.0,))
    monkeypatch.setattr(multiply, "available_cores", lambda: cores)
    engine, system = get_engine("cpu"), residue_system("2m", 8)
    left = draw(engine, 70, 40, system, 1)
    with limit_threads(1):
        engine.multiply(left, left, system)
    assert found == taken
