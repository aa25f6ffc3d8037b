"""Blocks as dask hands them out: shared, refilled, mislabelled, placed by the user."""

from itertools import product

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from scipy import sparse

import twom_dist as td
from tests.support.expect import raises
from tests.support.jobs import IN_PROCESS
from tests.support.strategies import random_matrix
from twom_dist.errors import KernelError

N, TILE = 60, 20


def pair(dtype="complex128"):
    return (random_matrix(N, N, dtype, 1.0, seed) for seed in (1, 2))


@pytest.fixture(scope="module")
def client():
    cluster = LocalCluster(
        n_workers=3, threads_per_worker=1, resources={"UNIT": 1}, **IN_PROCESS
    )
    with cluster, Client(cluster) as client:
        yield client


def test_one_persisted_matrix_serves_every_op():
    """Square tiles with equal exponents: only the op tells their encodings apart."""
    A, B = (np.round(x * 8) / 8 for x in pair())
    dA, dB = (da.from_array(x, chunks=TILE).persist() for x in (A, B))
    ops = [(a, b) for a in "NTC" for b in "NTC"]
    lazy = [td.gemm(dA, dB, op_a=a, op_b=b, num_moduli=16) for a, b in ops]
    for scheduler in ("sync", "threads"):
        found = dask.compute(*lazy, scheduler=scheduler)
        for (a, b), C in zip(ops, found, strict=True):
            expected = td.gemm(A, B, op_a=a, op_b=b, num_moduli=16)
            assert (expected == C).all(), (a, b)


@pytest.mark.parametrize("refill", [np.negative, lambda x: x[::-1].copy(), np.conj])
def test_a_block_refilled_in_place_is_encoded_again(refill):
    A, B = pair()
    buffer = np.ones((N, N), complex)
    load = dask.delayed(lambda: buffer, pure=False)
    dA = da.from_delayed(load(), (N, N), complex)
    lazy = td.gemm(dA, da.from_array(B, chunks=N))
    for content in (A, refill(A)):
        buffer[...] = content
        C = lazy.compute(scheduler="sync")
        assert (td.gemm(content, B) == C).all()


# --- blocks that are not what their array says -------------------------------------

M, K = 6, 8
# What a block becomes that its array says nothing of, and the code of the refusal.
LIES = {
    "fewer rows": ("block-shape", lambda b: b[:1].copy()),
    "more rows": ("block-shape", lambda b: np.vstack([b, b])),
    "fewer columns": ("block-shape", lambda b: b[:, :-1]),
    "more columns": ("block-shape", lambda b: np.hstack([b, b])),
    "no rows": ("block-shape", lambda b: b[:0]),
    "one dimension": ("block-shape", lambda b: b.ravel()),
    "three dimensions": ("block-shape", lambda b: b[np.newaxis]),
    "real": ("block-kind", lambda b: b.real.copy()),
    "single": ("block-kind", lambda b: b.astype("c8")),
    "integers": ("block-kind", lambda b: b.real.astype(int)),
    "objects": ("block-kind", lambda b: b.astype(object)),
    "big-endian": ("block-kind", lambda b: b.astype(">c16")),
    "masked": ("block-kind", lambda b: np.ma.masked_array(b, b == b)),
    "matrix": ("block-kind", lambda b: sparse.csr_matrix(b)),
    "list": ("block-kind", lambda b: b.tolist()),
    "none": ("block-kind", lambda b: None),
}
# Shapes of A, B and C, and what is computed from them.
CALLS = {
    "gemm": (
        ((M, K), (K, M), (M, M)),
        lambda a, b, c, **options: td.gemm(a, b, c, beta=1, **options),
    ),
    "gemm, transposed": (
        ((K, M), (M, K), (M, M)),
        lambda a, b, c, **options: td.gemm(
            a, b, c, beta=1, op_a="C", op_b="T", **options
        ),
    ),
    "herk": (
        ((M, K), None, (M, M)),
        lambda a, _, c, **options: td.herk(a, c, beta=1, **options),
    ),
    "syr2k": (
        ((K, M), (K, M), (M, M)),
        lambda a, b, c, **options: td.syr2k(a, b, c, beta=1, op="T", **options),
    ),
}


def lying(x, lie, dtype=complex):
    """An array whose blocks are not what it says."""
    return x.map_blocks(lie, dtype=dtype, meta=np.empty((0, 0), dtype))


def calls_with_lies():
    """Combine each call, lie and matrix with each of the others."""
    cases = []
    for (i, call), (j, lie) in product(enumerate(CALLS), enumerate(LIES)):
        there = [x for x, shape in zip("ABC", CALLS[call][0], strict=True) if shape]
        cases.append((call, lie, there[(i + j) % len(there)]))
    return cases


@pytest.mark.parametrize(("call", "lie", "where"), calls_with_lies())
def test_blocks_that_are_not_what_their_array_says_are_refused(call, lie, where):
    (shapes, compute), (code, change) = CALLS[call], LIES[lie]
    arrays = {
        name: shape and da.ones(shape, dtype=complex, chunks=3)
        for name, shape in zip("ABC", shapes, strict=True)
    }
    arrays[where] = lying(arrays[where], change)
    for panel_bytes, scheduler in ((1, "sync"), ("1 GiB", "threads")):
        with dask.config.set({"twom-dist.panel-bytes": panel_bytes}):
            lazy = compute(*arrays.values())
        with raises(KernelError, code):
            lazy.compute(scheduler=scheduler)


@pytest.mark.parametrize("options", [{"alpha": 0}, {"method": "blas"}])
@pytest.mark.parametrize("call", CALLS)
def test_c_is_checked_whoever_adds_it(call, options):
    shapes, compute = CALLS[call]
    a, b, c = (x and da.ones(x, dtype=complex, chunks=3) for x in shapes)
    with raises(KernelError, "block-shape"):
        compute(a, b, lying(c, LIES["fewer rows"][1]), **options).compute()


@pytest.mark.parametrize(
    ("call", "lie"),
    [*zip(CALLS, ["fewer rows", "more rows", "real", "none"], strict=True)],
)
def test_workers_refuse_them_as_well(client, call, lie):
    (shapes, compute), (code, change) = CALLS[call], LIES[lie]
    a, b, c = (x and da.ones(x, dtype=complex, chunks=3) for x in shapes)
    for arrays in ((lying(a, change), b, c), (a, b, lying(c, change))):
        with raises(KernelError, code):
            compute(*arrays).compute()


@pytest.mark.parametrize("declared", ["int64", "bool", "float32"])
def test_blocks_are_checked_before_they_are_promoted(declared):
    x = da.ones((4, 4), chunks=2, dtype=declared)
    liar = lying(x, lambda b: b + 1j, dtype=declared)
    for lazy in (td.gemm(liar, x), td.zherk(liar), td.zgemm(x, x, liar, beta=1)):
        with raises(KernelError, "block-kind"):
            lazy.compute(scheduler="sync")


def test_other_byte_orders_may_become_native_on_the_way(client):
    """NumPy pickles a slice that is not contiguous in native order."""
    x = random_matrix(6, 6, "float64", 1.0, 1)
    X = da.from_array(x.astype(">f8"), chunks=3)
    expected = td.gemm(x, x)
    for scheduler in ("sync", client):
        assert (td.gemm(X, X).compute(scheduler=scheduler) == expected).all()


def test_blocks_may_be_mapped_files(tmp_path):
    x = random_matrix(6, 6, "complex128", 1.0, 1)
    np.save(tmp_path / "x.npy", x)
    block = dask.delayed(np.load)(tmp_path / "x.npy", mmap_mode="r")
    X = da.from_delayed(block, x.shape, x.dtype)
    assert (td.gemm(X, X, X, beta=2).compute() == td.gemm(x, x, x, beta=2)).all()
    assert (td.herk(X).compute() == td.herk(x)).all()


@pytest.mark.parametrize("beta", [2, 0.5 - 1j])
@pytest.mark.parametrize("options", [{}, {"alpha": 0}, {"method": "blas"}])
def test_c_of_any_memory_order_is_scaled(beta, options):
    A, B = pair()
    C = random_matrix(N, N, "complex128", 1.0, 3)
    B = B.copy()
    B[3, 4] = np.nan
    expected = td.gemm(A, B, C, beta=beta, **options)
    for other in (np.asfortranarray(C), C[::-1].copy()[::-1]):
        found = td.gemm(A, B, other, beta=beta, **options)
        assert np.array_equal(found, expected, equal_nan=True)


# --- blocks on workers --------------------------------------------------------------


def test_the_users_restrictions_are_kept(client):
    A, B = pair()
    dA, dB = (da.from_array(x, chunks=TILE) for x in (A, B))
    only = sorted(client.nthreads())[1]
    C = client.persist(td.gemm(dA, dB), workers=[only], allow_other_workers=False)
    assert (C.compute() == td.gemm(A, B)).all()
    holders = client.who_has(C)
    assert {worker for where in holders.values() for worker in where} == {only}


def test_resources_are_kept(client):
    A, B = pair()
    dA, dB = (da.from_array(x, chunks=TILE) for x in (A, B))
    C = client.persist(td.gemm(dA, dB), resources={"UNIT": 1})
    assert (C.compute() == td.gemm(A, B)).all()


def test_a_product_of_a_product_is_placed_too(client):
    A, B = pair()
    dA, dB = (da.from_array(x, chunks=TILE) for x in (A, B))
    C = td.gemm(td.gemm(dA, dB), dB) + 1
    assert (C.compute() == td.gemm(td.gemm(A, B), B) + 1).all()
