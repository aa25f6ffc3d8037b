"""Jobs on workers: the bits of the routine, whatever stops them or lies elsewhere."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Timer

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

import twom_dist as td
from tests.support import jobs
from tests.support.command import CommandLine, contents, make, read, save
from tests.support.expect import raises, same_bits
from tests.support.integers import random_integers
from tests.support.stored import left_behind
from tests.support.workers import start_workers
from twom_dist.errors import StoreError
from twom_dist.jobs import open_job
from twom_dist.jobs.execution import LEAST_BYTES, at_disk
from twom_dist.store import open_matrix

HYBRID = {"alpha": 2 - 1j, "beta": 0.5j, "method": "hybrid", "accuracy": 1e-20}
AB = ("A.zarr", "B.npy")
JOBS = [
    ("gemm", AB, "C.h5", "waves", {"C": "C0.h5", **HYBRID}),
    ("gemm", AB, "C.zarr", "one wave", {"equilibrate": True}),
    ("herk", AB[:1], "C.npz", "streams", {"op": "C"}),
    ("syr2k", AB[:1] * 2, "C.zarr", "waves", {"uplo": "lower", "num_moduli": 16}),
]


@pytest.mark.parametrize(("routine", "paths", "output", "way", "options"), JOBS)
def test_a_job_on_workers_has_the_bits_of_its_routine(
    client, files, routine, paths, output, way, options
):
    routine, seen = getattr(td, routine), []
    job = open_job(routine.ask(*paths, **options), output)
    tile = 8 if way == "streams" else 16
    summary = jobs.compute_in(way, job, client, seen.append, tile=tile)
    whole = options | {x: read(options[x]) for x in ("C",) if x in options}
    assert same_bits(read(output), routine(*map(read, paths), **whole))
    assert [p.done for p in seen] == list(range(1, seen[-1].tiles + 1))
    assert (summary.waves > 2) == (way == "waves")
    if routine is td.gemm:
        assert summary.operations == seen[-1].operations == 8 * jobs.M * jobs.N * jobs.K
    assert left_behind() == []


def test_workers_find_pairs_and_send_them(client, here):
    v = random_integers((50, 60), "int8", pairs=True)
    save("V.h5", v)
    job = partial(td.rank_k_files, td.integers.herk, "V.h5", "C.npy", pairs=True)
    assert job(chunks=16, client=client).tiles == (4, 4, 4)
    assert same_bits(np.load("C.npy"), td.integers.herk(v, pairs=True))


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_workers_of_a_job_share_k(client, here):
    a = make(500, 24, 1)
    save("A.zarr", a)
    tall = partial(td.rank_k_files, td.herk, "A.zarr", op="C", chunks=16)
    job = partial(tall, client=client)
    with client.as_current():
        plan = td.plan(td.rank_k_files, td.herk, "A.zarr", op="C", chunks=16)
        assert plan.layers == 2
    job("H.zarr")
    expected = td.herk(a, op="C")
    assert same_bits(read("H.zarr"), expected)
    jobs.stop_after(1, lambda **x: job("K.npy", **x))
    assert job("K.npy").resumed >= 1
    # Alone, and so along another tree.
    tall("L.npy")
    for path in ("K.npy", "L.npy"):
        assert same_bits(read(path), expected)
    # One that is native keeps its order.
    options = {"op_a": "C", "chunks": 16, "method": "blas", "client": client}
    td.multiply_files("A.zarr", "A.zarr", "B.npy", **options)
    assert np.allclose(np.load("B.npy"), expected)


def test_who_goes_on_makes_no_difference(client, files):
    np.save("C.npy", np.eye(3))
    both = (client, None)
    for first, second, output in ((*both, "C.zarr"), (*both[::-1], "C.h5")):
        jobs.stop_after(7, partial(jobs.multiply, output, client=first))
        jobs.wait_until(lambda: not jobs.task_names(client))
        summary = jobs.multiply(output, client=second, engine="reference")
        assert 7 <= summary.resumed < jobs.TILES
        assert same_bits(read(output), td.gemm(*files[:2]))
    change = partial(np.save, "B.npy", 2 * files[1])
    with raises(StoreError, "input-changed"):
        jobs.multiply(
            "C.npy", client=client, overwrite=True, progress=jobs.at(3, change)
        )
    assert same_bits(read("C.npy"), np.eye(3))
    assert left_behind() == []


@contextmanager
def elsewhere(client, folder):
    """Have one of the workers work in a folder of its own, and the others in this."""
    homes = client.run(os.getcwd)
    worker = min(homes)
    try:
        for address in homes:
            place = folder if address == worker else "."
            client.run(os.chdir, os.path.abspath(place), workers=[address])
        yield worker
    finally:
        for address, path in homes.items():
            client.run(os.chdir, path, workers=[address])


def test_a_worker_that_sees_another_file_is_refused(client, files):
    Path("other").mkdir()
    # Each process finds the folder that it works in there.
    paths = (os.path.abspath("A.zarr"), "/proc/self/cwd/B.npy")
    output = os.path.abspath("C.zarr")
    job = partial(td.multiply_files, *paths, output, chunks=16)
    jobs.stop_after(4, job)
    job = partial(job, client=client)
    status = Path("B.npy").stat()
    with elsewhere(client, "other") as worker:
        for kind in ("file-not-on-worker", "input-differs-on-worker", None):
            if kind != "file-not-on-worker":
                # Of the same shape: nothing else would tell them apart.
                np.save("other/B.npy", -files[1] if kind else files[1])
                times = (status.st_atime_ns, status.st_mtime_ns + bool(kind))
                os.utime("other/B.npy", ns=times)
            before = contents(Path())
            if kind is None:
                job()
                break
            # Also where the old tiles are no longer wanted.
            for overwrite in (False, True):
                with raises(StoreError, kind) as caught:
                    job(overwrite=overwrite)
                assert worker in str(caught.value)
                assert contents(Path()) == before
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))


# The workers are threads of this process.
EVENTS = {"first": Event(), "second": Event()}


def wait_at_disk(name):
    with at_disk(LEAST_BYTES):
        return EVENTS[name].wait(30)


def leave_twice():
    for _ in range(2):
        with at_disk(LEAST_BYTES):
            pass
    return True


def test_a_worker_of_one_thread_computes_while_a_task_is_at_the_disk():
    with start_workers(1) as client:
        first = client.submit(wait_at_disk, "first", pure=False)
        # No other task has a place at the disk: it keeps the thread.
        second = client.submit(wait_at_disk, "second", pure=False)
        late = client.submit(abs, -1, pure=False)
        EVENTS["second"].set()
        assert (second.result(30), late.result(30)) == (True, 1)
        assert not first.done()
        EVENTS["first"].set()
        assert first.result(30)
        # A task leaves its thread once.
        assert client.submit(leave_twice).result(30)
    # Those of other executors stay where they are.
    with (
        ThreadPoolExecutor(2) as executor,
        LocalCluster(n_workers=1, **jobs.IN_PROCESS, executor=executor) as cluster,
        Client(cluster) as client,
    ):
        assert client.submit(leave_twice).result(30)


def test_the_command_waits_for_the_file_of_a_scheduler(client, files, capsys):
    command, file = CommandLine(capsys), Path("s.json")
    file.touch()
    told = json.dumps({"address": client.scheduler.address})
    writer = Timer(0.5, file.write_text, (told,))
    writer.start()
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--scheduler-file", file)
    code, out, err = command(*product)
    assert (code, bool(err), "GFLOP/s" in out) == (0, True, True)
    # What continues a job names no scheduler, which has gone by then.
    command_again = open_matrix("C.zarr").provenance()["run"]["command"]
    assert command_again.endswith("twom-dist gemm A.zarr B.npy -o C.zarr")
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    writer.join()
    before = contents(Path())
    with jobs.local_workers(0, processes=False) as alone:
        to = ("--scheduler", alone.scheduler.address, "--timeout", "0.3")
        product = ("gemm", "A.zarr", "B.npy", "-o", "D.npy", *to)
        command.assert_refuses(*product, why="no-workers")
    assert contents(Path()) == before


@pytest.mark.parametrize(("flags", "scheme"), [((), "tls"), (("--insecure",), "tcp")])
def test_who_can_reach_workers_of_a_command(files, capsys, flags, scheme):
    product = ("gemm", "A.zarr", "B.npy", "-o", "C.npy", "--n-workers", "1")
    # What a worker is ready for first.
    fast = ("--engine", "reference", "--num-moduli", "16", "--chunks", "64")
    told = os.path.abspath("told")
    tell = f"def dask_setup(own): open({told!r}, 'w').write(own.scheduler.address)"
    with dask.config.set({"distributed.worker.preload": [tell]}):
        code, _, err = CommandLine(capsys)(*product, *fast, *flags)
    assert code == 0
    assert err.startswith("twom-dist: begins on 1 worker, 4 tiles to compute\n")
    assert Path(told).read_text().startswith(f"{scheme}://")
