"""Panels along k: each adds to the sums of the one before, which stay as they are."""

from dataclasses import replace

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.strategies import random_matrix
from twom_dist.problem.problem import of_headers
from twom_dist.tiles import tasks
from twom_dist.tiles.rows import Row

N, K = 33, 20


@pytest.mark.parametrize("cuts", [[(0, 20)], [(0, 7), (7, 13), (13, 20)]])
@pytest.mark.parametrize("k", [0, K])
def test_a_panel_leaves_the_sums_that_it_adds_to(engine_name, k, cuts):
    """Received by another worker, they are read-only; and a task may run again."""
    whole = random_matrix(N, K, "complex128", 1.0, 1)
    posed = of_headers(*td.gemm.ask(whole, whole.T, num_moduli=3)[:3])
    spec = replace(posed.with_engine(engine_name).spec, op_b="T", lazy=True)
    exponents = np.full(N, 9, np.int32)

    def multiply(x, cuts, before=None):
        tiles = [x[:, lo:hi] for lo, hi in cuts]
        given = Row("left", tiles), Row("right", tiles), exponents, exponents
        return tasks.multiply_panel(*given, spec, before)

    before = multiply(whole, [(0, 0), *cuts])
    before.values.flags.writeable = False
    kept = before.values.copy()
    # A panel without columns, before others or alone, adds nothing.
    x = random_matrix(N, K, "complex128", 1.0, 2)[:, :k]
    cuts = [(min(lo, k), min(hi, k)) for lo, hi in cuts]
    found, again = (multiply(x, [(0, 0), *cuts], before) for _ in range(2))
    assert same_bits(before.values, kept)
    assert same_bits(found.values[..., :N], again.values[..., :N])
    both = multiply(np.concatenate([whole, x], axis=1), [(0, K + k)])
    assert same_bits(found.values[..., :N], both.values[..., :N])
