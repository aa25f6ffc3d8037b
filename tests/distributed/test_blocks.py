"""Blocks as dask hands them out: shared, refilled, mislabelled, placed by the user."""

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import twom_dist as td
from tests.strategies import random_matrix
from twom_dist.errors import KernelError

N, TILE = 60, 20


def pair(dtype="complex128"):
    return (random_matrix(N, N, dtype, 1.0, seed) for seed in (1, 2))


def test_one_persisted_matrix_serves_every_op():
    """Square tiles with equal exponents: only the op tells their encodings apart."""
    A, B = (np.round(x * 8) / 8 for x in pair())
    dA, dB = (da.from_array(x, chunks=TILE).persist() for x in (A, B))
    ops = [(a, b) for a in "NTC" for b in "NTC"]
    lazy = [td.gemm(dA, dB, op_a=a, op_b=b) for a, b in ops]
    for scheduler in ("sync", "threads"):
        found = dask.compute(*lazy, scheduler=scheduler)
        for (a, b), C in zip(ops, found, strict=True):
            assert (td.gemm(A, B, op_a=a, op_b=b) == C).all(), (a, b)


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


@pytest.mark.parametrize("num_moduli", [16, 25])
def test_blocks_of_another_dtype_than_declared_are_refused(num_moduli):
    x = da.from_array(np.ones((N, N)), chunks=TILE)
    liar = x.map_blocks(lambda b: b + 1j * b, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(KernelError, match=r"ndarray of complex128.*says.*float64"):
        td.gemm(liar, x, num_moduli=num_moduli).compute(scheduler="sync")


def test_blocks_of_another_shape_than_declared_are_refused():
    x = da.from_array(np.ones((N, N)), chunks=TILE)
    liar = x.map_blocks(lambda b: b[:, :-1], dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(KernelError, match="do not fit together"):
        td.gemm(liar, x).compute(scheduler="sync")


def test_masked_blocks_are_refused():
    masked = da.ma.masked_greater(da.from_array(np.ones((N, N)), chunks=TILE), 2)
    with pytest.raises(TypeError, match="masked array"):
        td.gemm(masked, masked)


@pytest.mark.parametrize("beta", [2, 0.5 - 1j])
@pytest.mark.parametrize("options", [{}, {"alpha": 0}, {"method": "native"}])
def test_c_of_any_memory_order_is_scaled(beta, options):
    A, B = pair()
    C = random_matrix(N, N, "complex128", 1.0, 3)
    B = B.copy()
    B[3, 4] = np.nan
    expected = td.gemm(A, B, C, beta=beta, **options)
    for other in (np.asfortranarray(C), C[::-1].copy()[::-1]):
        found = td.gemm(A, B, other, beta=beta, **options)
        assert np.array_equal(found, expected, equal_nan=True)


@pytest.fixture(scope="module")
def client():
    cluster = LocalCluster(
        n_workers=3,
        threads_per_worker=1,
        processes=False,
        dashboard_address="localhost:0",
        resources={"UNIT": 1},
    )
    with cluster, Client(cluster) as client:
        yield client


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
