"""Small products: what a few numbers decide is what explanations and tiles decide."""

import warnings

import dask
import numpy as np

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import sample
from tests.support.strategies import DTYPES, random_matrix


def operands(dtype):
    """Yield pairs of matrices that sums of rows, octaves or pairs decide about."""
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
def test_decisions_are_those_of_tiles(dtype):
    warnings.simplefilter("ignore")
    closed = set()
    for a, b in operands(dtype):
        for routine, given in (
            (td.gemm, (a, b.T)),
            (td.gemm, (np.asfortranarray(a), np.ascontiguousarray(b.T))),
            (td.herk, (a,)),
        ):
            first, found = routine(*given), routine(*given)  # as it is remembered
            assert same_bits(first, found)
            explained = td.explain(routine, *given)
            closed.add(explained.closed_by)
            if explained.num_moduli and not explained.equilibrated:
                own = routine(*given, num_moduli=explained.num_moduli)
                assert same_bits(own, found)
            with dask.config.set({"twom-dist.largest-tile": 16}):
                assert same_bits(routine(*given), found)
            assert same_bits(routine(*given, engine="reference"), found)
            out = np.empty_like(found)
            for _ in range(2):
                assert same_bits(routine(*given, out=out), found)
    assert closed >= {"sums", "pairs"}
