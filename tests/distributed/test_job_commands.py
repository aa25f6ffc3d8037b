"""Jobs of the command: on a scheduler, ended, killed, and continued."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer

import pytest
from distributed import LocalCluster

import twom_dist as td
from tests.command import (
    ENVIRONMENT,
    CommandLine,
    contents,
    make,
    read,
    same_bits,
    save,
)
from tests.expect import first_number
from tests.jobs import finished, wait_until
from tests.stored import left_behind
from twom_dist import jobs
from twom_dist.cli.following import follow


def start(values, *flags):
    """Start a product that takes seconds."""
    save("long.npy", values)
    product = ("gemm", "long.npy", "long.npy", "-o", "C.zarr", "--tile", "16")
    command = [sys.executable, "-m", "twom_dist", *product, "--engine", "reference"]
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([*command, *flags], env=ENVIRONMENT, text=True, **pipes)


def is_writing(process):
    assert process.poll() is None, process.communicate()[1]
    return list(Path().glob(".C.zarr.unfinished/*/c/*/*"))


def test_the_command_uses_a_scheduler(client, files, capsys):
    """Also one that has yet to write its file."""
    address, call = client.scheduler.address, CommandLine(capsys)

    def write():
        Path("s.json").touch()
        time.sleep(0.3)
        Path("s.json").write_text(json.dumps({"address": address}))

    writer = Timer(0.5, write)
    writer.start()
    for flags in (("--scheduler-file", "s.json"), ("--scheduler", address)):
        product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--overwrite")
        code, out, err = call(*product, *flags)
        assert (code, err, "GFLOP/s" in out) == (0, "", True)
        assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    writer.join()


@pytest.mark.parametrize(("flags", "scheme"), [((), "tls"), (("--insecure",), "tcp")])
def test_workers_of_a_command_are_closed(files, monkeypatch, capsys, flags, scheme):
    seen = []

    def look(run, client, *others, compute=jobs.compute):
        seen.extend(client.nthreads())
        return compute(run, client, *others)

    monkeypatch.setattr(jobs, "compute", look)
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.npy", "--workers", "1")
    code, _, err = CommandLine(capsys)(*product, *flags)
    assert (code, err) == (0, "")
    assert [address.partition("://")[0] for address in seen] == [scheme]


def test_a_line_counts_the_workers_of_a_scheduler(client, capsys):
    said = []
    with follow(9, client=client, workers=9, seconds=0.1):
        wait_until(lambda: said.append(capsys.readouterr().err) or said[-1])
    found = len(client.scheduler_info()["workers"])
    assert said[-1] == f"twom-dist: 0 of 9 tiles, {found} of 9 workers\n"


def test_a_scheduler_without_workers_is_refused(files, capsys):
    before = contents(Path())
    with LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster:
        flags = ("--scheduler", cluster.scheduler_address, "--timeout", "0.3")
        product = ("gemm", "A.zarr", "B.npy", "-o", "C.npy", *flags)
        CommandLine(capsys).assert_refuses(*product, why="no-workers")
    assert contents(Path()) == before


@pytest.mark.parametrize(
    ("workers", "number"), [("0", signal.SIGTERM), ("1", signal.SIGKILL)]
)
def test_a_command_that_was_ended_is_continued(here, capsys, workers, number):
    values = make(160, 160, 1)
    process = start(values, "--workers", workers)
    wait_until(lambda: len(is_writing(process)) > 2, 60)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    if number == signal.SIGTERM:
        assert process.returncode == 143
        assert "of 100 tiles are kept in" in err
    # Nothing that could be taken for a result.
    assert sorted(os.listdir()) == [".C.zarr.unfinished", "long.npy"]
    kept = len(finished())
    assert kept > 2
    base = ("gemm", "long.npy", "long.npy", "-o", "C.zarr", "--workers", "0")
    code, out, err = CommandLine(capsys)(*base, "--resume")
    assert (code, err) == (0, "")
    # Workers of a command that was killed may have finished what they had begun.
    assert kept <= first_number(out.partition("tiles, ")[2]) <= kept + 2
    assert same_bits(read("C.zarr"), td.gemm(values, values))
    assert left_behind() == []
