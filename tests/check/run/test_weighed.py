"""Small products: what a few numbers decide is what the look at tiles decides."""

import warnings
from collections import Counter

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import sample
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.kernels.cpu.look import pairs
from twom_dist.run import eager, recipes, weighed


def operands(dtype):
    """Yield pairs of matrices that sums of rows, errors or pairs decide about."""
    for phi in (0.0, 0.5, 1.0, 4.0):
        yield tuple(
            random_matrix(33, 30, dtype, phi, seed)[: 33 - seed] for seed in (0, 3)
        )
    a, b = random_matrix(33, 30, dtype, 1.0, 1), random_matrix(21, 30, dtype, 2.0, 2)
    sparse = a.copy()
    sparse[np.random.default_rng(0).random(a.shape) < 0.8] = 0
    yield sparse, b
    sparse = sparse.copy()
    sparse[3], sparse[4, 2], b[1, 7] = 0, np.nan, np.inf
    yield sparse, b
    yield (a * np.exp2(np.arange(30) % 7 * -9)).astype(dtype), b
    yield a, np.zeros_like(b)
    yield np.array([[1, 2.0**-60]], dtype), np.array([[2.0**-60, 1]], dtype)


@sample("dtype", DTYPES, ["float32", "complex128"])
def test_decisions_are_those_of_tiles(monkeypatch, dtype):
    decisions, decide = [], eager.decide

    def record(numbers, spec):
        decisions.append(decide(numbers, spec))
        return decisions[-1]

    monkeypatch.setattr(eager, "decide", record)
    monkeypatch.setattr(weighed, "decide", record)
    warnings.simplefilter("ignore")
    closed = Counter()
    for a, b in operands(dtype):
        for routine, given in (
            (td.gemm, (a, b.T)),
            (td.gemm, (np.asfortranarray(a), np.ascontiguousarray(b.T))),
            (td.herk, (a,)),
        ):
            recipes._recipes.clear()
            decisions.clear()
            found, explained = routine(*given), td.explain(routine, *given)
            for x in decisions:
                count = len(x.system.moduli) if x.system else 0
                own = explained.num_moduli, explained.rho, explained.closed_by
                assert (count, x.rho, x.closed_by) == own
                closed[x.closed_by] += 1
            with monkeypatch.context() as large:
                large.setattr(pairs, "_MOST", 0)
                assert same_bits(routine(*given), found)
            if routine is td.gemm:
                assert same_bits(td.gemm(*given, engine="reference"), found)
                out = np.empty_like(found)
                for _ in range(2):
                    assert same_bits(td.gemm(*given, out=out), found)
    assert set(closed) >= {"sums", "pairs"}


def test_a_product_is_posed_once(monkeypatch):
    a, b = (random_matrix(40, 40, "complex128", 1.0, seed) for seed in (1, 2))
    expected = td.gemm(a, b)
    monkeypatch.setattr(recipes, "of_arrays", lambda *_: pytest.fail("posed again"))
    assert same_bits(td.gemm(a, b), expected)
