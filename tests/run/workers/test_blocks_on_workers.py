"""Blocks on workers: shared, mislabelled, placed by the user."""

import dask.array as da
import pytest
from distributed import Client, LocalCluster

import twom_dist as td
from tests.support.expect import raises
from tests.support.jobs import IN_PROCESS
from tests.support.lies import CALLS, LIES, lying
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


def test_other_byte_orders_may_become_native_on_the_way(client):
    """NumPy pickles a slice that is not contiguous in native order."""
    x = random_matrix(6, 6, "float64", 1.0, 1)
    X = da.from_array(x.astype(">f8"), chunks=3)
    expected = td.gemm(x, x)
    for scheduler in ("sync", client):
        assert (td.gemm(X, X).compute(scheduler=scheduler) == expected).all()


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
