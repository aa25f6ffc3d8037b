"""Workers that are not what this process is, and dask arrays of the other back end."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import twom_dist as td
from tests.command import CommandLine, contents, read, same_bits
from tests.expect import raises
from tests.jobs import wait_until
from twom_dist.errors import StoreError
from twom_dist.jobs import multiply_files

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
GIB = 2**30


@contextmanager
def joined_by(client, code):
    """Have another worker join that runs some code first."""
    address, before = client.scheduler.address, set(client.nthreads())
    Path("first.py").write_text(code)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "dask", "worker", address, "--no-nanny"),
            *("--nthreads", "1", "--host", "127.0.0.1", "--dashboard-address", ":0"),
            *("--memory-limit", str(2 * GIB), "--preload", "first.py"),
        ],
        env=ENVIRONMENT,
        stderr=subprocess.DEVNULL,
    )
    try:
        client.wait_for_workers(len(before) + 1, timeout=60)
        (joined,) = set(client.nthreads()) - before
        yield joined
    finally:
        process.terminate()
        process.wait(60)
        wait_until(lambda: set(client.nthreads()) == before, 60)


OTHERS = {
    "twom_dist": "from distributed import versions as v; known = v._version_cached; "
    "v._version_cached = lambda x, f=known: '9.9' if x == 'twom_dist' else f(x)",
    "distributed": "from distributed import versions as v; v._version_cached = {}.get",
}


@pytest.mark.parametrize("package", OTHERS)
def test_workers_with_other_versions_are_refused(client, files, capsys, package):
    command = CommandLine(capsys)
    with joined_by(client, OTHERS[package]) as other:
        before = contents(Path())
        with raises(StoreError, "versions-differ") as caught:
            multiply_files("A.zarr", "B.npy", "C.zarr", client=client)
        address = client.scheduler.address
        flags = ("-o", "C.zarr", "--scheduler", address)
        product = ("gemm", "A.zarr", "B.npy", *flags)
        assert other in command.assert_refuses(*product, why="versions-differ")
        code, out, _ = command("doctor", "--scheduler", address)
        assert contents(Path()) == before
    assert caught.value.problem.partition(" ")[0] in ("dask", package)
    assert code == 1
    assert f"{package} is " in out


def test_workers_with_other_settings_give_the_same_bits(client, files):
    names = ("largest-tile", "cache-bytes", "panel-bytes", "reuse-bytes", "threads")
    settings = {f"twom-dist.{name}": 1 for name in names}
    code = f"import dask; dask.config.set({settings}); import twom_dist"
    with joined_by(client, code):
        multiply_files("A.zarr", "B.npy", "C.zarr", client=client, tile=16)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


# --- dask's other back end of arrays --------------------------------------------------


EXPRESSIONS = """
import sys
import dask.array as da
from distributed import Client
from tests.command import *
import twom_dist as td
from twom_dist.jobs import multiply_files, update_files

def compute(output, client):
    a, b, c = (read(name) for name in ("A.zarr", "B.npy", "C0.h5"))
    options = {"client": client, "tile": 16, "overwrite": True}

    def same(expected):
        assert same_bits(read(output), expected)

    for scalars in ({}, {"alpha": 0}, {"beta": 2}, {"beta": 2, "alpha": 0}):
        c0 = ("C0.h5", c) if "beta" in scalars else (None, None)
        multiply_files("A.zarr", "B.npy", output, c=c0[0], **scalars, **options)
        same(td.gemm(a, b, c0[1], **scalars))
    for scalars in ({}, {"uplo": "lower"}):
        update_files("herk", "A.zarr", output, **scalars, **options)
        same(td.herk(a, **scalars))

assert hasattr(da.ones(3), "expr"), "array expressions are not in use"
address, *outputs = sys.argv[1:]
for output in outputs:
    compute(output, None)
with Client(address) as client:
    for output in outputs:
        compute(output, client)
print("the same bits")
"""


def test_array_expressions(client, files):
    pytest.importorskip("dask.array._array_expr")
    outputs = ("C.zarr",)
    run = subprocess.run(
        [
            *(sys.executable, "-W", "error", "-c", EXPRESSIONS),
            *(client.scheduler.address, *outputs),
        ],
        env=ENVIRONMENT | {"DASK_ARRAY__QUERY_PLANNING": "True"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.stdout == "the same bits\n", run.stderr
