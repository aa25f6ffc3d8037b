"""Jobs of the command: on a scheduler, ended, killed, and continued."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from distributed import LocalCluster

import twom_dist as td
from tests.command import (
    CommandLine,
    assert_refused,
    contents,
    make,
    read,
    same_bits,
    save,
)
from tests.jobs import finished, hidden, multiply, stop_after, wait_until

ROOT = Path(__file__).resolve().parents[2]
# Records every tile, where jobs of seconds would record none.
RECORDING = """
from twom_dist.jobs import recorder
recorder.RECORD_SECONDS = 0
recorder.RECORD_SHARE = 1e9
"""
COMMAND = "from twom_dist.cli import main; main()"
# A journal after three tiles, or more.
RECORDED = ".C.zarr.resume"


def start(values, *flags, code=COMMAND):
    """Start a product that takes seconds."""
    save("long.npy", values)
    product = ("gemm", "long.npy", "long.npy", "-o", "C.zarr", "--tile", "16")
    return subprocess.Popen(
        [sys.executable, "-c", code, *product, "--engine", "reference", *flags],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def is_writing(process):
    assert process.poll() is None, process.communicate()[1]
    return list(Path().glob(".C.zarr.*.partial/c/*/*"))


def is_recording(process):
    assert process.poll() is None, process.communicate()[1]
    path = Path(RECORDED)
    return path.exists() and path.read_text().count("fin") > 2


def test_the_command_uses_a_scheduler(client, files, capsys):
    address = client.scheduler.address
    Path("dask.json").write_text(f'{{"address": "{address}"}}')
    call = CommandLine(capsys)
    for name, flags in {
        "C.zarr": ("--scheduler", address),
        "C.npz": ("--scheduler-file", "dask.json"),
    }.items():
        code, out, err = call("gemm", "A.zarr", "B.npy", "-o", name, *flags)
        assert (code, err) == (0, "")
        assert "GFLOP/s" in out
        assert same_bits(read(name), td.gemm(*files[:2]))


def test_a_scheduler_without_workers_is_refused(files, capsys):
    before = contents(Path())
    with LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster:
        flags = ("--scheduler", cluster.scheduler_address, "--timeout", "0.3")
        answer = CommandLine(capsys)("gemm", "A.zarr", "B.npy", "-o", "C.npy", *flags)
    assert_refused(answer)
    assert contents(Path()) == before


@pytest.mark.parametrize(
    ("flags", "number", "code"),
    [
        (("--workers", "0"), signal.SIGTERM, 143),
        (("--workers", "1", "--overwrite"), signal.SIGINT, 130),
    ],
)
def test_an_ended_command_leaves_what_was_there(files, flags, number, code):
    if "--overwrite" in flags:
        save("C.zarr", np.eye(3))
    before = contents(Path())
    process = start(np.ones((192, 192)), *flags)
    wait_until(lambda: is_writing(process), 60)
    # As a terminal does it: to the workers as well.
    os.killpg(process.pid, number) if number == signal.SIGINT else process.terminate()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert err.startswith("twom-dist: error: ")
    assert err.count("\n") == 1
    left = contents(Path())
    del left["long.npy"]
    assert left == before


def test_a_killed_command_leaves_nothing_plausible(files):
    before = contents(Path())
    process = start(np.ones((192, 192)), "--workers", "0")
    wait_until(lambda: is_writing(process), 60)
    process.kill()
    process.communicate(timeout=60)
    new = {Path(name).parts[0] for name in set(contents(Path())) - set(before)}
    (left,) = new - {"long.npy"}
    assert left.startswith(".C.zarr.")
    assert left.endswith(".partial")
    assert not list(Path().glob("*C.*zarr"))


@pytest.mark.parametrize(
    ("workers", "number"), [("0", signal.SIGTERM), ("1", signal.SIGKILL)]
)
def test_a_command_that_was_ended_is_continued(
    tmp_path, monkeypatch, capsys, workers, number
):
    monkeypatch.chdir(tmp_path)
    values = make(160, 160, 1)
    process = start(values, "--workers", workers, code=RECORDING + COMMAND)
    wait_until(lambda: is_recording(process), 60)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    if number == signal.SIGTERM:
        assert process.returncode == 143
        assert "of 100 tiles are kept in" in err
    kept = len(finished())
    assert kept > 2
    call = CommandLine(capsys)
    base = ("gemm", "long.npy", "long.npy", "-o", "C.zarr", "--workers", "0")
    assert f"{kept} of 100 tiles" in assert_refused(call(*base))
    code, out, err = call(*base, "--resume")
    assert (code, err) == (0, "")
    assert f"{kept} of them from before" in out
    assert same_bits(read("C.zarr"), td.gemm(values, values))
    assert hidden() == []


def test_what_cannot_be_continued_names_no_argument_of_the_library(
    files, every_tile_recorded, capsys
):
    stop_after(3, multiply)
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--workers", "0", "--resume")
    for flags in (("--num-moduli", "12"), ("--tile", "20"), ("--method", "3m")):
        assert "=" not in assert_refused(CommandLine(capsys)(*product, *flags))
