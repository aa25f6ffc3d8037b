"""Workers that are not what this process is, and dask's other back end of arrays."""

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


# In a process that has chosen dask's other back end of arrays.
JOBS = """
import sys, dask.array as da, twom_dist as td
from distributed import Client
x = da.ones((3, 3))
assert hasattr(x, "expr"), "array expressions are not in use"
for product in (td.gemm, td.matmul):
    try:
        product(x, x)
    except td.errors.ArgumentError as error:
        assert error.code == "array-expression"
    else:
        raise AssertionError(product)
with Client(sys.argv[1]) as client:
    td.multiply_files("A.zarr", "B.npy", "C.zarr", chunks=16, num_moduli=16)
td.rank_k_files(td.herk, "A.zarr", "H.zarr", chunks=16, engine="reference")
"""


def test_array_expressions_are_refused_and_jobs_do_without(client, files):
    pytest.importorskip("dask.array._array_expr")
    environment = ENVIRONMENT | {"DASK_ARRAY__QUERY_PLANNING": "True"}
    command = [sys.executable, "-W", "error", "-c", JOBS, client.scheduler.address]
    subprocess.run(command, env=environment, check=True)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2], num_moduli=16))
    assert same_bits(read("H.zarr"), td.herk(files[0]))
