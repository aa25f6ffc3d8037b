"""Commands as processes: how they start, what becomes of their words, their jobs."""

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import entry_points

import dask
import pytest

from tests.support.bits import same_bits
from tests.support.command import ENVIRONMENT, contents, read, save_operands
from tests.support.jobs import finished, wait_until
from tests.support.places import CLUSTER, ROOT
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


# --- words ----------------------------------------------------------------------------

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
    (f"T {PRODUCT} 2>&-", 0, 0),
    ("T info --fast 2> /dev/full", 2, 0),
    # Who reads may have seen enough.
    ("T gemm --help | true", 0, 0),
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


# --- the status of a job elsewhere ----------------------------------------------------

# After the fifth tile no thread goes on.
SLOWLY = """if True:
    import sys, time
    from twom_dist.cli import following, main
    from twom_dist.store import Output
    write = Output.write
    def write_slowly(output, *tile):
        write(output, *tile)
        time.sleep(600 if len(output.finished()) > 5 else 0.1)
    Output.write = write_slowly
    following._SHORT_SECONDS = 1.0
    main(sys.argv[1:])
"""
TYPED = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--num-moduli", "16")
EXAMPLES = re.compile(r"\$ twom-dist status C.zarr\n(.*?)(?=\$|```)", re.DOTALL)
TIME = re.compile(r"\b(\d+m )?\d+s\b")
RATE = re.compile(r"\d+\.\d tiles (a|an) (second|minute|hour)")


def outline(text, folder):
    """Replace what differs from run to run."""
    text = re.sub(r"on \S+, for", "on node, for", text.replace(str(folder), "/data"))
    text = RATE.sub("some tiles a minute", TIME.sub("some time", text))
    return re.sub(r"\d+ of \d+", "some of all", text)


def test_the_example_of_the_docs(call, here):
    save_operands(70, 30, 90)
    script = [sys.executable, "-c", SLOWLY, *TYPED, "--chunks=16", "--n-workers=0"]
    # A log has the first tile.
    silence = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(script, env=ENVIRONMENT, **silence)
    try:
        wait_until(lambda: call("status", "C.zarr")[1].count("tiles ") > 1)
        running = call("status", "C.zarr")
        begun, line = (process.stderr.readline() for _ in range(2))
    finally:
        process.kill()
    process.communicate()
    assert re.match(r"twom-dist: begins on \d+ threads?, 30 tiles to compute$", begun)
    assert re.match(r"twom-dist: \d+ of 30 tiles, \d.* GFLOP/s, .* left$", line), line
    stopped = call("status", "C.zarr")
    assert (running[0], stopped[0]) == (1, 1)
    examples = EXAMPLES.findall((CLUSTER / "README.md").read_text("utf-8"))
    documented = [outline(x.replace("B.zarr", "B.npy"), "/data") for x in examples]
    own = " --num-moduli 16 --n-workers 0 --chunks 16"
    found = [outline(x[1].replace(own, ""), here) for x in (running, stopped)]
    assert found == documented
    kept = len(finished())
    *_, last = stopped[1].splitlines()
    command = shlex.split(last.removeprefix("continue"))
    code, out, _ = call(*command[1:])
    assert (code, f"{kept} of them from before" in out) == (0, True)
    assert call("status", "C.zarr")[0] == 0
