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


# A line, its exit code, and whether it is said on stderr.
LINES = [
    (f"T {PRODUCT} > /dev/full", 0, 1),
    (f"T {PRODUCT} | true", 0, 1),
    (f"T {PRODUCT} 2>&-", 0, 0),
    ("T info --fast 2> /dev/full", 2, 0),
    # Who reads may have seen enough.
    ("T gemm --help | true", 0, 0),
    ("T gemm --help > /dev/full", 1, 1),
    ("T plan gemm --shape-a 9,9 --shape-b 9,9 | true", 0, 0),
    ("T plan gemm --shape-a 9,9 --shape-b 9,9 > /dev/full", 1, 1),
]


@pytest.mark.parametrize(("line", "expected", "lines"), LINES)
def test_a_command_is_done_whatever_becomes_of_its_words(a, b, line, expected, lines):
    code, _, err = shell(line)
    assert (code, err.count("\n")) == (expected, lines)
    if PRODUCT in line:
        assert same_bits(read("C.npy"), gemm(a, b))
        assert sorted(os.listdir()) == ["A.npy", "B.npy", "C.npy"]


def test_words_that_cannot_be_shown_are_spelt_out_or_left(a, b):
    output = PRODUCT.replace("C.npy", "\u00c7.npy")
    code, out, err = shell(f"PYTHONIOENCODING=ascii T {output}")
    assert (code, "\\xc7.npy" in out) == (0, True), err
    code, out, _ = shell("T info none.npy --json --debug 2>&-")
    assert (code, json.loads(out)["code"]) == (2, "file-missing")
