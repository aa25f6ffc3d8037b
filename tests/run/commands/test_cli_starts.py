"""Commands as processes: how soon they start, and what is left if they cannot."""

import subprocess
import sys
from importlib.metadata import entry_points

import dask
import pytest

from tests.support.command import contents, save_more
from tests.support.places import ROOT
from twom_dist.cli import main

ROUTINES = ["gemm", "herk", "syrk", "her2k", "syr2k"]


def test_help_is_quick_and_names_the_exit_codes(call):
    for command in ((), ("gemm",)):
        code, out, _ = call(*command, "--help")
        assert code == 0
        for line in ("0    done", "2    refused", "130  interrupted"):
            assert line in out
    assert set(ROUTINES) <= set(main.commands)
    code = "import sys, twom_dist.cli; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    slow = {"distributed", "zarr", "h5py", "numba", "onnxruntime"}
    assert slow & set(loaded.split()) == set()


def test_python_and_dask_have_the_command():
    (entry,) = entry_points(group="dask_cli", name="twom")
    assert (entry.load(), main.name) == (main, "twom")
    command = [sys.executable, "-m", "twom_dist", "plan", "gemm"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("twom-dist: error: ")
    assert found.stderr.count("\n") == 1


AT = ("A.npy", "B.npy", "-o", "C.npy", "--timeout", "0.3")


@pytest.fixture
def before(call, here, a, b):
    """Store more matrices beside A and B; all that is there."""
    return save_more(here, a, b)


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("temporary-directory", "A.npy", "no-folder"),
        ("distributed.worker.preload", ["no_such_module"], "workers-did-not-start"),
    ],
)
def test_workers_that_do_not_start_leave_nothing(
    call, here, before, setting, value, why
):
    product = ("gemm", *AT[:4], "--n-workers", "1")
    with dask.config.set({setting: value}):
        call.assert_refuses(*product, why=why)
    assert contents(here) == before
