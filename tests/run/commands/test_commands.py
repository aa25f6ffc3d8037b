"""Commands as processes: how they start, and what becomes of their words."""

import os
import subprocess
import sys
from importlib.metadata import entry_points

import dask
import pytest

from tests.support.command import ENVIRONMENT, contents, read
from tests.support.expect import same_bits
from tests.support.places import ROOT
from twom_dist import gemm
from twom_dist.cli import main

pytestmark = pytest.mark.usefixtures("here")


def test_python_and_dask_have_the_command():
    (entry,) = entry_points(group="dask_cli", name="twom")
    assert (entry.load(), main.name) == (main, "twom")
    command = [sys.executable, "-m", "twom_dist", "plan", "gemm"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("twom-dist: error: ")
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("temporary-directory", "A.npy", "no-folder"),
        ("distributed.worker.preload", ["no_such_module"], "workers-did-not-start"),
    ],
)
def test_workers_that_do_not_start_leave_nothing(call, here, a, b, setting, value, why):
    before = contents(here)
    product = ("gemm", "A.npy", "B.npy", "-o", "C.npy", "--n-workers", "1")
    with dask.config.set({setting: value}):
        call.assert_refuses(*product, why=why)
    assert contents(here) == before


# The engine that starts fastest.
PRODUCT = "gemm A.npy B.npy -o C.npy --n-workers 0 --engine reference"


# A line, its exit code, and whether it is said on stderr.
LINES = [
    (f"T {PRODUCT} > /dev/full", 0, 1),
    (f"T {PRODUCT} 2>&-", 0, 0),
    ("T info --fast 2> /dev/full", 2, 0),
    ("T plan gemm 9,9 9,9 > /dev/full", 1, 1),
]


@pytest.mark.parametrize(("line", "expected", "lines"), LINES)
def test_a_command_is_done_whatever_becomes_of_its_words(a, b, line, expected, lines):
    # T is the command; the path of Python may have a blank.
    script = f'T() {{ "$PYTHON" -m twom_dist "$@"; }}; {line}'
    environment = ENVIRONMENT | {"PYTHON": sys.executable}
    command = ["bash", "-o", "pipefail", "-c", script]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.count("\n")) == (expected, lines)
    if PRODUCT in line:
        assert same_bits(read("C.npy"), gemm(a, b))
        assert sorted(os.listdir()) == ["A.npy", "B.npy", "C.npy"]
