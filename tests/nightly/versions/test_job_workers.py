"""Workers that are not what this process is, and dask arrays of the other back end."""

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import twom_dist as td
from tests.support.command import ENVIRONMENT, CommandLine, contents, read
from tests.support.expect import raises, same_bits
from tests.support.jobs import wait_until
from twom_dist.errors import StoreError


@contextmanager
def joined_by(client, code):
    address, before = client.scheduler.address, set(client.nthreads())
    Path("first.py").write_text(code)
    command = [sys.executable, "-m", "dask", "worker", address, "--no-nanny"]
    command += ["--nthreads", "1", "--host", "127.0.0.1", "--dashboard-address", ":0"]
    command += ["--memory-limit", "2GiB", "--preload", "first.py"]
    options = {"env": ENVIRONMENT, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **options)
    try:
        client.wait_for_workers(len(before) + 1, timeout=60)
        (joined,) = set(client.nthreads()) - before
        yield joined
    finally:
        process.terminate()
        process.wait(60)
        wait_until(lambda: set(client.nthreads()) == before, 60)


def change_version():
    """Have this process say that it has another version of this package."""
    from distributed import versions

    known = versions._version_cached
    versions._version_cached = lambda x: "9.9" if x == "twom_dist" else known(x)


def test_workers_with_other_settings_give_the_same_bits_and_other_versions_none(
    client, files, capsys
):
    command = CommandLine(capsys)
    names = ("largest-tile", "cache-bytes", "panel-bytes", "reuse-bytes", "threads")
    settings = {f"twom-dist.{name}": 1 for name in names}
    code = f"import dask; dask.config.set({settings}); import twom_dist"
    with joined_by(client, code) as other:
        td.multiply_files("A.zarr", "B.npy", "S.zarr", client=client, chunks=16)
        assert same_bits(read("S.zarr"), td.gemm(*files[:2]))
        client.run(change_version, workers=[other])
        before = contents(Path())
        with raises(StoreError, "versions-differ"):
            td.multiply_files("A.zarr", "B.npy", "C.zarr", client=client)
        address = client.scheduler.address
        product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--scheduler", address)
        assert other in command.assert_refuses(*product, why="versions-differ")
        code, out, _ = command("doctor", "--scheduler", address)
        assert (code, "twom_dist is " in out) == (1, True)
        assert contents(Path()) == before


# In processes that have chosen dask's other back end of arrays.
PRODUCTS = """
import pickle
import dask
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
"""
JOBS = """
import sys, dask.array as da, twom_dist as td
from distributed import Client
assert hasattr(da.ones(3), "expr")
with Client(sys.argv[1]) as client:
    td.multiply_files("A.zarr", "B.npy", "C.zarr", chunks=16, num_moduli=16)
td.rank_k_files(td.herk, "A.zarr", "H.zarr", chunks=16, engine="reference")
"""


def test_array_expressions(client, files):
    pytest.importorskip("dask.array._array_expr")
    environment = ENVIRONMENT | {"DASK_ARRAY__QUERY_PLANNING": "True"}
    for script in (PRODUCTS, JOBS):
        command = [sys.executable, "-W", "error", "-c", script]
        command.append(client.scheduler.address)
        subprocess.run(command, env=environment, check=True)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2], num_moduli=16))
    assert same_bits(read("H.zarr"), td.herk(files[0]))
