"""Jobs of the command: on a scheduler, ended, killed, and continued."""

import json
from pathlib import Path
from threading import Timer

import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.command import CommandLine, contents, read
from tests.support.jobs import local_workers
from twom_dist import jobs


def test_the_command_waits_for_the_file_of_a_scheduler(client, files, capsys):
    file = Path("s.json")
    file.touch()
    told = json.dumps({"address": client.scheduler.address})
    writer = Timer(0.5, file.write_text, (told,))
    writer.start()
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--scheduler-file", file)
    code, out, err = CommandLine(capsys)(*product)
    assert (code, err.count("\n"), "GFLOP/s" in out) == (0, 1, True)
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    writer.join()


@pytest.mark.parametrize(("flags", "scheme"), [((), "tls"), (("--insecure",), "tcp")])
def test_workers_of_a_command_are_closed(files, monkeypatch, capsys, flags, scheme):
    seen = []

    def look(run, client, *others, compute=jobs.compute):
        seen.extend(client.nthreads())
        return compute(run, client, *others)

    monkeypatch.setattr(jobs, "compute", look)
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.npy", "--n-workers", "1")
    # What a worker is ready for first.
    fast = ("--engine", "reference", "--num-moduli", "16", "--chunks", "64")
    code, _, err = CommandLine(capsys)(*product, *fast, *flags)
    assert (code, err) == (0, "twom-dist: begins on 1 worker, 4 tiles to compute\n")
    assert [address.partition("://")[0] for address in seen] == [scheme]


def test_a_scheduler_without_workers_is_refused(files, capsys):
    before = contents(Path())
    with local_workers(0) as client:
        to = ("--scheduler", client.scheduler.address, "--timeout", "0.3")
        product = ("gemm", "A.zarr", "B.npy", "-o", "C.npy", *to)
        CommandLine(capsys).assert_refuses(*product, why="no-workers")
    assert contents(Path()) == before
