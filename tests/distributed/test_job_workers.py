"""Workers that are not what this process is, and dask arrays of the other back end."""

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import twom_dist as td
from tests.command import ENVIRONMENT, CommandLine, contents, read, same_bits
from tests.expect import raises
from tests.jobs import wait_until
from twom_dist.errors import StoreError
from twom_dist.jobs import multiply_files

GIB = 2**30


@contextmanager
def joined_by(client, code):
    """Have another worker join that runs some code first."""
    address, before = client.scheduler.address, set(client.nthreads())
    Path("first.py").write_text(code)
    command = [sys.executable, "-m", "dask", "worker", address, "--no-nanny"]
    command += ["--nthreads", "1", "--host", "127.0.0.1", "--dashboard-address", ":0"]
    command += ["--memory-limit", str(2 * GIB), "--preload", "first.py"]
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


@pytest.mark.slow
def test_array_expressions():
    """The same tests with the back end of arrays that a process chooses once."""
    pytest.importorskip("dask.array._array_expr")
    code = "import sys, pytest, dask.array as da; assert hasattr(da.ones(3), 'expr'); "
    code += "sys.exit(pytest.main(sys.argv[1:]))"
    tests = (str(Path(__file__).with_name("test_jobs.py")), "-k", "bits or options")
    run = subprocess.run(
        [sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", *tests],
        env=ENVIRONMENT | {"DASK_ARRAY__QUERY_PLANNING": "True"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout
