"""Products in the other of dask's array back ends, which a process chooses once."""

import subprocess
import sys

import pytest

from tests.support.places import ROOT

PRODUCTS = """
import pickle
import dask
dask.config.set({"array.query-planning": True})
import dask.array as da
import numpy as np
import twom_dist as td
from tests.support.strategies import random_matrix

assert hasattr(da.ones(3), "expr"), "array expressions are not in use"
A, B, C = (
    random_matrix(*shape, seed=s)
    for s, shape in enumerate([(23, 31), (31, 19), (23, 19)])
)
options = {"alpha": 0.5 - 2j, "beta": -1.5}
expected = td.gemm(A, B, C, **options)
of_a = td.herk(A), td.syr2k(A, A)
sizes = (23, 19, 31), (8, 8, 8), (8, 8, 8), (4, 10, 31), (23, 19, 5)
for (m, n, k), panel_bytes in zip(sizes, ("1 GiB", "1 GiB", 1, 1, "1 GiB")):
    a, b, c = (
        da.from_array(x, chunks=size)
        for x, size in ((A, (m, k)), (B, (k, n)), (C, (m, n)))
    )
    with dask.config.set({"twom-dist.panel-bytes": panel_bytes}):
        found = td.gemm(a, b, c, **options)
        assert found.chunks == c.chunks
        assert (found.compute(scheduler="sync") == expected).all(), (m, n, k)
        for update, whole in zip((td.herk(a), td.syr2k(a, a)), of_a):
            assert (update.compute(scheduler="sync") == whole).all()
    for plain in (found, found[1:], pickle.loads(pickle.dumps(found))):
        assert type(plain) is type(a)
    part = found.T[3:, 1:] + 0
    assert (part.compute(scheduler="threads") == expected.T[3:, 1:]).all()
    assert td.plan(td.gemm, a, b).grid.m == c.chunks[0]
x, y = da.from_array(A, chunks=8), da.from_array(B, chunks=8)
before = dict(vars(da.Array)), da.matmul
with td.use(method="2m", strict=True) as used:
    found = [x @ y, A @ y, x @ B, np.matmul(x, y), da.matmul(x, y)]
    found += [np.tensordot(x, y, 1), np.einsum("ij,jk", x, y)]
    found += [np.dot(x, y), da.dot(x, y)]
assert (used.ours, used.left) == (9, 0)
with td.use() as used:
    try:
        da.matmul(x.real.astype(int), x.real.astype(int))
    except NotImplementedError as error:
        assert "int64" in str(error.__context__)
assert str(used).splitlines()[1].startswith("  1 left: matmul, since int64")
assert (dict(vars(da.Array)), da.matmul) == before
for one in found:
    assert (one.compute(scheduler="sync") == td.matmul(A, B, method="2m")).all()
print("the same bits")
"""


def test_products_have_the_same_bits():
    pytest.importorskip("dask.array._array_expr")
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", PRODUCTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.stdout == "the same bits\n", run.stderr
