"""Ctrl-C and SIGTERM, once, twice and three times: what is left, and how soon."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil

from tests.support.cases import sample
from tests.support.command import ENVIRONMENT, make, save, visible
from tests.support.jobs import wait_until

INT, TERM = signal.SIGINT, signal.SIGTERM
STILL = "twom-dist: cleaning up; once more ends it at once\n"
PRODUCT = ("gemm", "A.npy", "A.npy", "--op-b", "T", "--num-moduli", "16", "-o")
# A command whose clean-up takes some seconds.
SLOW = """
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
# One that stops before and after its output gets its name.
LATE = """
import sys
from twom_dist.cli import main
from twom_dist.store import work_folder

def publish(*arguments):
    print("before", flush=True)
    sys.stdin.readline()
    give_its_name(*arguments)
    print("after", flush=True)
    sys.stdin.readline()

give_its_name, work_folder.publish = work_folder.publish, publish
main()
"""


@contextmanager
def started(script, *arguments):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-c", script, *arguments]
    options = {"env": ENVIRONMENT, "text": True, "start_new_session": True}
    with subprocess.Popen(command, **pipes, **options) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def writing(seconds, *flags):
    save("A.npy", make(512, 16, 1))
    slow = ("C.zarr", "--engine", "reference", "--chunks", "16", *flags)
    with started(SLOW, seconds, *PRODUCT, *slow) as process:
        wait_until(lambda: list(Path().glob(".C.zarr.unfinished/*/c/*/*")))
        yield process


@sample(
    ("first", "second", "word"),
    [(TERM, INT, "terminated"), (INT, TERM, "interrupted")],
    [(INT, TERM, "interrupted")],
)
def test_a_second_signal_does_not_disturb_the_clean_up(here, first, second, word):
    save("C.zarr", np.eye(3))
    with writing("1", "--n-workers", "1", "--overwrite") as process:
        before = visible(here)
        # As a terminal does it: to the workers as well.
        send = os.killpg if first == INT else os.kill
        send(process.pid, first)
        assert process.stdout.readline() == "leaving\n"
        process.send_signal(second)
        _, err = process.communicate()
    assert err.count("\n") == 5, err
    begun, small, still, kept, error = err.splitlines(keepends=True)
    assert small.startswith("twom-dist: tiles of 16 x 16 x 16 take longer")
    assert "run the same job again, without --overwrite, to continue" in kept
    assert begun == "twom-dist: begins on 1 worker, 1024 tiles to compute\n"
    assert (still, "of 1024 tiles are kept in" in kept) == (STILL, True)
    assert error.startswith(f"twom-dist: error: {word}; ")
    assert process.returncode == 128 + first
    assert visible(here) == before


def test_a_third_signal_ends_it_at_once(here):
    with writing("600", "--n-workers", "1") as process:
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(INT)
        assert process.stdout.readline() == "leaving\n"
        process.send_signal(INT)
        assert process.stderr.readline().startswith("twom-dist: begins on ")
        assert process.stderr.readline().startswith("twom-dist: tiles of 16 x ")
        assert process.stderr.readline() == STILL
        process.send_signal(TERM)
        assert process.wait(timeout=60) == -TERM
    assert psutil.wait_procs(children, timeout=60)[1] == []
    # What is left can be taken for no result.
    assert sorted(os.listdir()) == [".C.zarr.unfinished", "A.npy"]


@sample(("moment", "number"), [("before", TERM), ("after", INT)], [("after", INT)])
def test_a_signal_after_the_commit_changes_nothing(a, moment, number):
    with started(LATE, *PRODUCT, "C.npy", "--n-workers", "0") as process:
        assert process.stdout.readline() == "before\n"
        if moment == "after":
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "after\n"
        process.send_signal(number)
        assert process.stderr.readline().startswith("twom-dist: begins on ")
        assert process.stderr.readline() == STILL
        out, err = process.communicate("\n\n")
    assert (process.returncode, err) == (0, "")
    assert "GFLOP/s" in out
    assert sorted(os.listdir()) == ["A.npy", "C.npy"]
