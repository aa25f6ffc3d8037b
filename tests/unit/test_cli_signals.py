"""Ctrl-C and SIGTERM, once, twice and three times: what is left, and how soon."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.command import make, save, visible
from twom_dist.cli.failures import undisturbed

# Each starts the command and ends it.
pytestmark = [pytest.mark.timeout(90), pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
INT, TERM = signal.SIGINT, signal.SIGTERM
STILL = "twom-dist: cleaning up; once more ends it at once\n"
# A product of many small tiles, whose clean-up takes some seconds.
COMMAND = """
import sys, time
from twom_dist.jobs import run

def leave_slowly(*arguments):
    print("leaving", flush=True)
    time.sleep(seconds)
    return describe(*arguments)

if __name__ == "__main__":
    seconds = float(sys.argv.pop(1))
    describe, run.describe_kept = run.describe_kept, leave_slowly
    from twom_dist.cli import main
    main()
"""


# A small product, which stops before and after its output gets its name.
LATE = """
import sys
from twom_dist.cli import main
from twom_dist.store import unfinished

def publish(*arguments):
    print("before", flush=True)
    sys.stdin.readline()
    give_its_name(*arguments)
    print("after", flush=True)
    sys.stdin.readline()

give_its_name, unfinished.publish = unfinished.publish, publish
main()
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start the product, and wait until it writes."""
    monkeypatch.chdir(tmp_path)
    save("A.npy", make(512, 64, 1))
    started = []

    def start_command(seconds, *flags):
        product = ("gemm", "A.npy", "A.npy", "--op-b", "T", "-o", "C.zarr")
        slow = ("--engine", "reference", "--tile", "16")
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, seconds, *product, *slow, *flags],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        end = time.monotonic() + 60
        while not list(tmp_path.glob(".C.zarr.unfinished/*/c/*/*")):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end
            time.sleep(0.02)
        return process

    yield start_command
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("first", "second", "word"), [(TERM, INT, "terminated"), (INT, TERM, "interrupted")]
)
def test_a_second_signal_does_not_disturb_the_clean_up(start, first, second, word):
    save("C.zarr", np.eye(3))
    before = visible(Path())
    process = start("1", "--workers", "1", "--overwrite")
    # As a terminal does it: to the workers as well.
    send = os.killpg if first == INT else os.kill
    send(process.pid, first)
    assert process.stdout.readline() == "leaving\n"
    process.send_signal(second)
    _, err = process.communicate(timeout=30)
    assert err.count("\n") == 3, err
    still, kept, error = err.splitlines(keepends=True)
    assert (still, "of 1024 tiles are kept in" in kept) == (STILL, True)
    assert error.startswith(f"twom-dist: error: {word}; ")
    assert process.returncode == 128 + first
    assert visible(Path()) == before


def test_a_third_signal_ends_it_at_once(start):
    process = start("600", "--workers", "1")
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(INT)
    assert process.stdout.readline() == "leaving\n"
    process.send_signal(INT)
    assert process.stderr.readline() == STILL
    process.send_signal(TERM)
    assert process.wait(timeout=5) == -TERM
    assert psutil.wait_procs(children, timeout=20)[1] == []
    # What is left can be taken for no result.
    assert {path.name for path in Path().iterdir()} == {"A.npy", ".C.zarr.unfinished"}


def test_a_command_of_the_background_keeps_ignoring_ctrl_c(start):
    signal.signal(INT, signal.SIG_IGN)
    try:
        process = start("0", "--workers", "0")
    finally:
        signal.signal(INT, signal.default_int_handler)
    process.send_signal(INT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(TERM)
    assert process.communicate(timeout=30)[0] == "leaving\n"
    assert process.returncode == 143


def interrupt_a_start(number, passed):
    """Get a signal while a worker starts, to which the terminal sends Ctrl-C, too."""
    worker = get_context("spawn").Process(target=signal.raise_signal, args=(INT,))
    with undisturbed():
        os.kill(os.getpid(), number)
        worker.start()
        worker.join()
        passed.append(worker.exitcode)


@pytest.mark.parametrize("number", [INT, TERM])
def test_a_signal_while_workers_start_counts_afterwards(number):
    passed = []
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupt_a_start(number, passed)
    finally:
        signal.signal(number, before)
    assert passed == [0]


@pytest.mark.parametrize(("moment", "number"), [("before", TERM), ("after", INT)])
def test_a_signal_after_the_commit_changes_nothing(
    tmp_path, monkeypatch, a, moment, number
):
    monkeypatch.chdir(tmp_path)
    product = ("gemm", "A.npy", "A.npy", "--op-b", "T", "-o", "C.npy")
    process = subprocess.Popen(
        [sys.executable, "-c", LATE, *product, "--workers", "0"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "before\n"
    if moment == "after":
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "after\n"
    process.send_signal(number)
    assert process.stderr.readline() == STILL
    out, err = process.communicate("\n\n", timeout=30)
    assert (process.returncode, err) == (0, "")
    assert "GFLOP/s" in out
    assert {path.name for path in Path().iterdir()} == {"A.npy", "C.npy"}
