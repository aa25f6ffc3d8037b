"""Rank-k and rank-2k updates: equal to gemm, symmetric bit for bit, one triangle."""

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.strategies import random_matrix
from twom_dist import (
    her2k,
    herk,
    syr2k,
    syrk,
)

METHODS = ("2m", "3m", "4m", "hybrid", "eisenstein")
N, K = 37, 23


def matrix(seed=1, dtype="complex128", shape=(N, K)):
    return random_matrix(*shape, dtype, 1.0, seed)


@pytest.fixture(params=[4096, 10], ids=["one tile", "tiles"])
def tiled(request):
    with dask.config.set({"twom-dist.largest-tile": request.param}):
        yield


def mirrored(C, *, hermitian):
    """Return C as its lower triangle says."""
    lower, strict = np.tril(C), np.tril(C, -1)
    out = lower + (strict.conj().T if hermitian else strict.T)
    if hermitian:
        np.fill_diagonal(out.imag, 0)
    return out


@cases("engine", ["cpu", "reference"])
@cases("method", METHODS)
def test_herk_is_gemm_with_the_conjugate_transpose(tiled, method, engine):
    A = matrix()
    C = herk(A, method=method, engine=engine)
    assert (td.gemm(A, A, op_b="C", method=method) == C).all()
    assert (C == C.conj().T).all()
    assert not C.imag.diagonal().any()


def test_one_encoding_of_a_tile_serves_both_sides(tiled, monkeypatch):
    from twom_dist.kernels.cpu.encode import encode

    encoded = []
    plan = encode._plan

    def count(shapes, *args):
        encoded.extend(shapes)
        return plan(shapes, *args)

    monkeypatch.setattr(encode, "_plan", count)
    A, B = matrix(1), matrix(2)
    for routine in (herk, syrk):
        routine(A)
        tiles = len(encoded)
        assert sum(m * k for m, k in encoded) == A.size
        encoded.clear()
    her2k(A, B)
    assert len(encoded) == 2 * tiles


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_syrk_is_gemm_with_the_transpose(tiled, dtype):
    A = matrix(dtype=dtype)
    C = syrk(A)
    assert C.dtype == dtype
    assert (td.gemm(A, A, op_b="T") == C).all()
    assert (C == C.T).all()


def test_the_other_op_takes_columns(tiled):
    A = matrix()
    assert (herk(A, op="C") == td.gemm(A, A, op_a="C")).all()
    assert (syrk(A, op="T") == td.gemm(A, A, op_a="T")).all()


@pytest.mark.parametrize("hermitian", [True, False])
def test_rank_2k_is_the_sum_of_two_products(tiled, hermitian):
    A, B = matrix(1), matrix(2)
    routine, op = (her2k, "C") if hermitian else (syr2k, "T")
    C = routine(A, B, alpha=1 - 2j)
    Y = td.gemm(A, B, op_b=op, alpha=1 - 2j)
    other = Y.conj().T if hermitian else Y.T
    assert (Y + other == C).all()
    assert ((C.conj().T if hermitian else C.T) == C).all()


def test_rank_2k_updates_multiply_all_of_a_diagonal_tile():
    """Of rows so long that they are multiplied a few at a time."""
    A, B = (matrix(seed, "float32", (200, 2000)) for seed in (1, 2))
    C = syr2k(A, B)  # first: memory of the other product would hide what is left out
    Y = td.gemm(A, B, op_b="T")
    assert (Y + Y.T == C).all()


@cases("routine", [herk, syrk, her2k, syr2k])
@cases("uplo", ["lower", "upper"])
def test_one_triangle_is_that_of_the_whole_and_the_other_is_zero(tiled, routine, uplo):
    operands = (matrix(1), matrix(2)) if routine in (her2k, syr2k) else (matrix(1),)
    whole = routine(*operands)
    part = np.tril(whole) if uplo == "lower" else np.triu(whole)
    assert (routine(*operands, uplo=uplo) == part).all()


@cases("routine", [herk, syrk, her2k, syr2k])
@cases("uplo", ["full", "lower", "upper"])
@cases("alpha", [1, 0, 0.5])
def test_beta_c_of_the_computed_triangle_is_added(tiled, routine, uplo, alpha):
    operands = (matrix(1), matrix(2)) if routine in (her2k, syr2k) else (matrix(1),)
    C0 = matrix(3, shape=(N, N))
    poisoned = C0.copy()
    # What is not read: the other triangle.
    outside = np.tril_indices(N, -1) if uplo == "upper" else np.triu_indices(N, 1)
    poisoned[outside] = np.nan
    found = routine(*operands, poisoned, alpha=alpha, beta=2, uplo=uplo)
    product = routine(*operands, alpha=alpha)
    hermitian = routine in (herk, her2k)
    expected = mirrored(product + 2 * C0, hermitian=hermitian)
    if uplo == "upper":
        expected = np.triu(product + 2 * C0)
        if hermitian:
            np.fill_diagonal(expected.imag, 0)
    elif uplo == "lower":
        expected = np.tril(expected)
    assert (found == expected).all()


def test_nan_in_c_does_not_appear_with_beta_zero():
    A = matrix()
    C = np.full((N, N), np.nan)
    assert (herk(A, C, beta=0) == herk(A)).all()


def test_a_row_with_nan_spoils_its_row_and_column_alone(tiled):
    A = matrix()
    clean = herk(A)
    A[5, 3] = np.nan
    C = herk(A)
    kept = np.ones((N, N), bool)
    kept[5], kept[:, 5] = False, False
    assert (C[kept] == clean[kept]).all()
    assert not np.isfinite(C[~kept]).any()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_empty_and_single(shape):
    A = matrix(shape=shape)
    expected = td.gemm(A, A, op_b="C")
    assert (herk(A) == expected).all()
