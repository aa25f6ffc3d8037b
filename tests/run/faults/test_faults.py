"""Workers and schedulers that die, stop or fill up: the right bits, or a sentence."""

import errno
import os
import signal
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import dask
import pytest
from distributed.core import Status
from distributed.scheduler import KilledWorker

import twom_dist as td
from tests.support import jobs
from tests.support.command import read, visible
from tests.support.expect import raises, same_bits
from tests.support.workers import started
from twom_dist.errors import StoreError
from twom_dist.jobs import open_job

WORKERS = 2
# What starts fastest: each worker that dies is started again.
FAST = {"engine": "reference", "num_moduli": 16}
multiply = partial(jobs.multiply, **FAST)
STAGES = {
    "product": "twom_dist.tiles.cells.decode_cell",
    "writing": "twom_dist.jobs.tiles.write_tile",
}


@pytest.fixture(scope="module")
def client():
    """Workers to harm."""
    # Else a cluster gives up a worker that dies twice within a quarter of a minute.
    patient = {"distributed.deploy.lost-worker-timeout": "10 minutes"}
    with (
        dask.config.set(patient),
        jobs.local_workers(WORKERS, memory_limit="2 GiB") as made,
    ):
        yield made


@pytest.fixture
def expected(files):
    return td.gemm(*files[:2], num_moduli=16)


def wrap(stage, before=None):
    """Have this process do something before each call of a stage, or stop doing so."""
    import twom_dist.jobs  # noqa: F401

    module, _, name = STAGES[stage].rpartition(".")
    found = getattr(sys.modules[module], name)
    original = getattr(found, "original", found)

    def wrapped(*args, **kwargs):
        before()
        return original(*args, **kwargs)

    wrapped.original = original
    setattr(sys.modules[module], name, wrapped if before else original)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def fill_up():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def doze():
    time.sleep(0.05)


@contextmanager
def interference(client, stage, before, victim=None):
    """Wrap a stage on all workers, or on one, which dies of it."""
    client.run(wrap, stage, before, workers=None if victim is None else [victim])
    try:
        yield
    finally:
        jobs.wait_until(lambda: victim not in client.nthreads(), 60)
        jobs.wait_until(lambda: len(client.nthreads()) == WORKERS, 60)
        client.run(wrap, stage)


def set_paused(paused, dask_worker):
    # Else the next look at its memory would let it go on.
    dask_worker.memory_manager.memory_pause_fraction = False if paused else 0.8
    dask_worker.status = Status.paused if paused else Status.running


pause, unpause = (partial(set_paused, x) for x in (True, False))


def test_what_happens_to_workers_costs_time_alone(client, expected):
    (victim, *_) = client.run(os.getpid)

    def kill():
        for pid in client.run(os.getpid).values():
            os.kill(pid, signal.SIGKILL)

    def grow(progress):
        if progress.done == 3:
            client.cluster.scale(WORKERS + 1)
        if progress.done == 4:
            client.wait_for_workers(WORKERS + 1, timeout=60)

    with interference(client, "writing", die, victim):
        multiply("C.h5", client=client)
    # The look for moduli is lost with them.
    multiply("C.npy", progress=jobs.at(9, kill), client=client, num_moduli=None)
    jobs.wait_until(lambda: len(client.nthreads()) == WORKERS, 60)
    job = open_job(td.gemm.ask("A.zarr", "B.npy", **FAST), "C.zarr")
    jobs.compute_in("waves", job, client, grow)
    client.cluster.scale(WORKERS)
    jobs.wait_until(lambda: len(client.nthreads()) == WORKERS)
    (victim, *_) = client.run(os.getpid)
    with interference(client, "product", doze):
        try:
            # For ever, if it did not give its tasks away.
            pause_one = jobs.at(2, partial(client.run, pause, workers=[victim]))
            multiply("P.npy", client=client, progress=pause_one)
        finally:
            client.run(unpause, workers=[victim])
    for output in ("C.h5", "C.npy", "C.zarr", "P.npy"):
        assert same_bits(read(output), expected), output
    jobs.wait_until(lambda: not jobs.task_names(client))
    assert not list(Path().glob(".*"))


def test_workers_that_all_stay_paused_are_told_of(client, files, impatient):
    before = visible(Path())
    try:
        with raises(StoreError, "workers-paused"):
            multiply(client=client, progress=jobs.at(2, partial(client.run, pause)))
    finally:
        client.run(unpause)
    jobs.wait_until(lambda: not jobs.task_names(client))
    assert visible(Path()) == before


def test_workers_that_die_again_and_again_end_the_job(files):
    """As out of memory, which Linux answers with SIGKILL, and dask near the limit."""
    before = visible(Path())
    never = dask.config.set({"distributed.scheduler.allowed-failures": 0})
    with never, jobs.local_workers(WORKERS, memory_limit="2 GiB") as client:
        client.run(wrap, "product", die)
        with pytest.raises(KilledWorker):
            multiply(client=client)
        jobs.wait_until(lambda: not jobs.task_names(client))
    assert visible(Path()) == before


def test_after_a_disk_that_fills_up_or_goes_the_job_goes_on(client, expected):
    fill_later = jobs.at(7, partial(client.run, wrap, "writing", fill_up))
    # Slow enough to be met at work.
    with interference(client, "product", doze):
        with pytest.raises(OSError, match=r"No space left on device") as caught:
            multiply("C.npy", client=client, progress=fill_later)
        client.run(wrap, "writing")
    jobs.wait_until(lambda: not jobs.task_names(client))
    assert "of 30 tiles are kept in" in caught.value.__notes__[-1]
    assert not Path("C.npy").exists()
    assert multiply("C.npy", client=client).resumed >= 7
    assert same_bits(read("C.npy"), expected)
    os.mkdir("out")
    move = jobs.at(2, partial(os.rename, "out", "elsewhere"))
    with raises(StoreError, "file-missing"):
        multiply("out/C.npy", client=client, progress=move)
    assert not list(Path("elsewhere").glob("C*"))


def test_a_cluster_without_workers_ends_the_job(expected, impatient):
    leaving = Event()

    def linger():
        # The rest would take 25 s: a busy machine takes its time to stop a worker.
        time.sleep(1 if leaving.is_set() else 0.05)

    def leave():
        leaving.set()
        client.cluster.scale(0)

    with jobs.local_workers(1, processes=False) as client:
        wrap("product", linger)
        try:
            with raises(StoreError, "no-workers") as caught:
                multiply(client=client, progress=jobs.at(5, leave))
        finally:
            wrap("product")
    assert "of 30 tiles are kept" in caught.value.__notes__[-1]
    assert multiply().resumed >= 5
    assert same_bits(read("C.zarr"), expected)


def test_a_lost_scheduler_ends_the_job_and_what_is_there_finishes_it(
    client, expected, impatient, scheduler
):
    def stop():
        # Not before: a busy machine may take longer to begin.
        impatient(1.5)
        process.send_signal(signal.SIGSTOP)

    process, lone = scheduler
    with started("worker", lone.scheduler.address, "--no-nanny", "--nthreads", "1"):
        lone.wait_for_workers(1, timeout=60)
        # Slow enough to be noticed at work.
        lone.run(wrap, "product", doze)
        with raises(StoreError, "cluster-silent") as silent:
            multiply(client=lone, progress=jobs.at(5, stop))
        impatient(60)
        process.send_signal(signal.SIGCONT)
        with raises(StoreError, "scheduler-gone") as gone:
            multiply(client=lone, progress=jobs.at(20, process.kill))
    for caught in (silent, gone):
        assert "of 30 tiles are kept" in caught.value.__notes__[-1]
    # Other workers finish it.
    assert multiply(client=client).resumed >= 20
    assert same_bits(read("C.zarr"), expected)
