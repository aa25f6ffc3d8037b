"""Native products of dask arrays are dask's own, inside blocks and outside."""

import dask
import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.cases import cases


def tasks_of(x):
    """Count the tasks of a graph as dask would run it."""
    return len(dask.optimize(x)[0].__dask_graph__())


NATIVE_CALLS = [
    lambda x: x.T @ x,
    lambda x: da.einsum("ij,ij->j", x, x),
    lambda x: da.einsum("ij,i,ik->jk", x, x[:, 0], x),
    lambda x: da.einsum("ij,ik,jk,kl->il", x, x, x.T @ x, x.T[:, :7]),
    lambda x: da.matmul(x.reshape(40, 100, 8), x.reshape(40, 100, 8)[:, :8]),
    lambda x: da.tensordot(x, x, axes=([0], [0])),
    lambda x: x.T.dot(x),
    lambda x: x @ np.ones((8, 3)),
    lambda x: np.matmul(x.T, x),
]


@cases("call", NATIVE_CALLS)
@cases("options", [{}, {"method": "blas"}])
def test_native_products_are_dasks_own(call, options):
    """Its graph, chunks and bits, whose number does not grow with the rows."""
    x = da.ones((4000, 8), chunks=(1000, 8))
    with td.use(**options) as used:
        found = call(x)
    assert used.native
    assert not used.ours
    own = call(x)
    assert (found.chunks, tasks_of(found)) == (own.chunks, tasks_of(own))


def test_native_contractions_of_ours_are_dasks_own():
    x = da.ones((4000, 8), chunks=(1000, 8))
    with dask.config.set({"twom-dist.blas-below": 10**6}):
        pairs = [
            (td.matmul(x.T, x), da.matmul(x.T, x)),
            (td.tensordot(x, x, ([0], [0])), da.tensordot(x, x, ([0], [0]))),
            (td.einsum("ij,ij->j", x, x), da.einsum("ij,ij->j", x, x)),
            (td.einsum("ij,i->j", x, np.ones(4000)), x.T @ np.ones(4000)),
        ]
    for found, own in pairs:
        assert found.chunks == own.chunks
        assert tasks_of(found) <= tasks_of(own)
