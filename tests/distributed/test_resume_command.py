"""A command that was ended is continued by another one, with the same bits."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import twom_dist as td
from tests.command import (
    CommandLine,
    assert_refused,
    make,
    read,
    same_bits,
    save,
    save_operands,
)
from tests.distributed.test_resume import (
    RECORD,
    ROOT,
    K,
    M,
    N,
    finished,
    hidden,
    multiply,
    stop_after,
)
from twom_dist.jobs import recorder

COMMAND = """
from twom_dist.jobs import recorder
recorder.RECORD_SECONDS = 0
recorder.RECORD_SHARE = 1e9
from twom_dist.cli import main
main()
"""


def start_command(*flags):
    """Start a product that takes long, and wait until a part of it is recorded."""
    slow = ("--engine", "reference", "--tile", "16", *flags)
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", COMMAND),
            *("gemm", "long.npy", "long.npy", "-o", "C.zarr", *slow),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    while not (Path(RECORD).exists() and Path(RECORD).read_text().count("fin") > 2):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    return process


@pytest.mark.parametrize(
    ("workers", "number"),
    [("0", signal.SIGKILL), ("1", signal.SIGKILL), ("1", signal.SIGTERM)],
)
def test_a_command_that_was_ended_is_continued(
    tmp_path, monkeypatch, capsys, workers, number
):
    monkeypatch.chdir(tmp_path)
    values = make(160, 160, 1)
    save("long.npy", values)
    process = start_command("--workers", workers)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    if number == signal.SIGTERM:
        assert process.returncode == 143
        assert "of 100 tiles are kept in" in err
    kept = len(finished())
    assert kept > 2
    call = CommandLine(capsys)
    base = ("gemm", "long.npy", "long.npy", "-o", "C.zarr", "--workers", "0")
    code, _, err = call(*base)
    assert code == 2
    assert f"stopped with {kept} of 100 tiles" in err
    code, out, err = call(*base, "--resume")
    assert (code, err) == (0, "")
    assert f"{kept} of them from before" in out
    assert same_bits(read("C.zarr"), td.gemm(values, values))
    assert hidden() == []


def test_a_command_names_the_accuracy_as_it_is_typed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(recorder, "RECORD_SECONDS", 0)
    monkeypatch.chdir(tmp_path)
    save_operands(M, K, N)
    stop_after(3, multiply)
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--workers", "0", "--resume")
    err = assert_refused(CommandLine(capsys)(*product, "--num-moduli", "12"))
    assert "with --accuracy native (16 moduli) and this run has --num-moduli 12" in err
    err = assert_refused(CommandLine(capsys)(*product, "--tile", "20"))
    assert "error: --tile 20 given and 'C.zarr' was begun with 16 x 16 x 16" in err
