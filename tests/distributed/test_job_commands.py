"""Jobs of the command: on a scheduler, ended, killed, and continued."""

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

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
from tests.jobs import finished, local_workers, wait_until
from tests.stored import left_behind
from twom_dist import jobs


def test_the_command_waits_for_the_file_of_a_scheduler(client, files, capsys):
    file = Path("s.json")
    file.touch()
    told = json.dumps({"address": client.scheduler.address})
    writer = Timer(0.5, file.write_text, (told,))
    writer.start()
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--scheduler-file", file)
    code, out, err = CommandLine(capsys)(*product)
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


def test_a_scheduler_without_workers_is_refused(files, capsys):
    before = contents(Path())
    with local_workers(0) as client:
        to = ("--scheduler", client.scheduler.address, "--timeout", "0.3")
        product = ("gemm", "A.zarr", "B.npy", "-o", "C.npy", *to)
        CommandLine(capsys).assert_refuses(*product, why="no-workers")
    assert contents(Path()) == before


def test_a_command_that_was_killed_is_continued(here, capsys):
    values = make(160, 160, 1)
    save("long.npy", values)
    product = ("gemm", "long.npy", "long.npy", "-o", "C.zarr", "--workers")
    command = [sys.executable, "-m", "twom_dist", *product, "1", "--tile", "16"]
    command += ["--engine", "reference"]
    with subprocess.Popen(command, env=ENVIRONMENT) as process:
        wait_until(lambda: len(list(here.glob(".C.zarr.unfinished/*/c/*/*"))) > 2)
        process.kill()
    # Nothing that could be taken for a result.
    assert sorted(os.listdir()) == [".C.zarr.unfinished", "long.npy"]
    kept = len(finished())
    assert kept > 2
    code, out, err = CommandLine(capsys)(*product, "0", "--json")
    assert (code, err) == (0, "")
    # The worker may have finished what it had begun.
    assert kept <= json.loads(out)["resumed"] <= kept + 2
    assert same_bits(read("C.zarr"), td.gemm(values, values))
    assert left_behind() == []
