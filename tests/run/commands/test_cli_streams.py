"""Closed pipes and full disks under stdout and stderr: whose failure they are."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.bits import same_bits
from tests.support.command import ENVIRONMENT, read
from twom_dist import gemm

# Each starts the command.
pytestmark = pytest.mark.usefixtures("here")

# The engine that starts fastest.
PRODUCT = "gemm A.npy B.npy -o C.npy --n-workers 0 --engine reference"


def shell(line):
    """Run a line of bash, in which T is the command; return its exit code."""
    # The path of Python may have a blank.
    line = f'T() {{ "$PYTHON" -m twom_dist "$@"; }}; {line}'
    environment = ENVIRONMENT | {"PYTHON": sys.executable}
    command = ["bash", "-o", "pipefail", "-c", line]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize(
    "line",
    [
        f"T {PRODUCT} > /dev/full",
        f"T {PRODUCT} | true",
        f"T {PRODUCT} 2>&-",
    ],
)
def test_a_job_is_done_whatever_becomes_of_its_words(a, b, line):
    code, _, err = shell(line)
    assert (code, err.count("\n")) == (0, "2>&-" not in line)
    assert same_bits(read("C.npy"), gemm(a, b))
    assert sorted(os.listdir()) == ["A.npy", "B.npy", "C.npy"]


def test_a_name_that_the_terminal_does_not_have_is_spelled_out(a, b):
    output = PRODUCT.replace("C.npy", "\u00c7.npy")
    code, out, err = shell(f"PYTHONIOENCODING=ascii T {output}")
    assert (code, "\\xc7.npy" in out) == (0, True), err


def test_an_error_that_nobody_reads_has_its_code():
    code, out, _ = shell("T info none.npy --json --debug 2>&-")
    assert (code, json.loads(out)["code"]) == (2, "file-missing")
    assert shell("T info --fast 2> /dev/full") == (2, "", "")


@pytest.mark.parametrize(
    "command", ["gemm --help", "plan gemm --shape-a 9,9 --shape-b 9,9"]
)
def test_who_reads_may_have_seen_enough(command):
    assert shell(f"T {command} | true") == (0, "", "")
    code, _, err = shell(f"T {command} > /dev/full")
    assert (code, err.count("\n")) == (1, 1)
