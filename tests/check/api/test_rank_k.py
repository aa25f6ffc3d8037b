"""Rank-k and rank-2k updates: equal to gemm, symmetric bit for bit, one triangle."""

import dask
import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.cases import cases
from tests.support.stages import count_stages
from tests.support.strategies import random_matrix
from twom_dist import her2k, herk, syr2k, syrk

N, K = 37, 23


def operands(routine):
    count = 2 if routine in (her2k, syr2k) else 1
    return [random_matrix(N, K, seed=seed) for seed in range(count)]


def transpose(x, routine):
    return x.conj().T if routine in (herk, her2k) else x.T


@cases("tile", [4096, 10])
@cases("routine", [her2k, syr2k])
def test_rank_2k_is_the_sum_of_two_products(tile, routine):
    A, B = operands(routine)
    with dask.config.set({"twom-dist.largest-tile": tile}):
        C = routine(A, B, alpha=1 - 2j)
        Y = td.gemm(A, B, op_b="C" if routine is her2k else "T", alpha=1 - 2j)
    assert (Y + transpose(Y, routine) == C).all()
    assert (transpose(C, routine) == C).all()


def test_rank_2k_updates_multiply_all_of_a_diagonal_tile():
    """Of rows so long that they are multiplied a few at a time."""
    A, B = (random_matrix(200, 2000, "float32", seed=seed) for seed in (1, 2))
    C = syr2k(A, B)  # first: memory of the other product would hide what is left out
    Y = td.gemm(A, B, op_b="T")
    assert (Y + Y.T == C).all()


@cases("routine", [herk, syrk, her2k, syr2k])
@cases("uplo", ["full", "lower", "upper"])
@cases("alpha", [1, 0, 0.5])
@cases("shape", [(N, K), (6, 0)])
def test_a_triangle_is_that_of_the_whole(routine, uplo, alpha, shape):
    """The other one is zero in the result, and is not read in C."""
    given = [x[: shape[0], : shape[1]] for x in operands(routine)]
    whole = routine(*given, alpha=alpha)
    part = np.triu if uplo == "upper" else np.tril
    expected = whole if uplo == "full" else part(whole)
    assert (routine(*given, alpha=alpha, uplo=uplo) == expected).all()
    C = random_matrix(*whole.shape, seed=3)
    expected = part(whole + 2 * C)
    if routine in (herk, her2k):
        np.fill_diagonal(expected.imag, 0)
    if uplo == "full":
        expected = expected + transpose(np.tril(expected, -1), routine)
    C[part(np.ones(whole.shape)) == 0] = np.nan
    found = routine(*given, C, alpha=alpha, beta=2, uplo=uplo)
    assert (found == expected).all()
    if alpha == 0.5:
        lazy = [da.from_array(x, chunks=(20, 12)) for x in given]
        lazy = routine(*lazy, C, alpha=alpha, beta=2, uplo=uplo)
        assert (lazy.compute(scheduler="sync") == expected).all()


def test_what_nobody_asks_for_is_not_made():
    C = herk(da.ones((N, K), chunks=(10, K)))
    for part in (C[:10, :10], C[30:, :10], C[:10, 30:]):
        (culled,) = dask.optimize(part)
        assert count_stages(culled)["twom-product"] == 1
