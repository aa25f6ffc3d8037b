"""Clusters that do not answer, and workers that lack this package."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import dask.array as da
import numpy as np
import pytest
from distributed import Client

import twom_dist as td
from tests.support.command import ENVIRONMENT
from tests.support.expect import raises
from twom_dist.errors import EngineUnavailableError

A = da.ones((60, 60), chunks=30)
STACK = da.ones((4, 20, 20), chunks=(2, 20, 20))
BUILDS = [
    lambda: td.gemm(A, A),
    lambda: td.herk(A),
    lambda: td.gemm(STACK, STACK),
    lambda: td.matmul(A, A),
    lambda: td.plan(td.gemm, A, A),
]


@contextmanager
def started(program, *arguments, **variables):
    """Start a program of dask's, which is killed at the end."""
    module = f"distributed.cli.dask_{program}"
    command = [sys.executable, "-m", module, "--no-dashboard", *arguments]
    variables |= {"PYTHONSAFEPATH": "1"}  # not from where the tests run
    process = subprocess.Popen(command, env=ENVIRONMENT | variables)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def scheduler(tmp_path):
    """A scheduler without workers, and a client that is the current one."""
    file = str(tmp_path / "scheduler.json")
    own = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", file]
    with started("scheduler", *own) as process, Client(scheduler_file=file) as client:
        yield process, client


def time_builds():
    """Time what builds lazy products and plans, but computes nothing."""
    begin = time.monotonic()
    for build in BUILDS:
        build()
    return time.monotonic() - begin


@pytest.mark.usefixtures("here")
def test_building_waits_for_no_scheduler_that_has_stopped(scheduler):
    process, client = scheduler
    own = "--no-nanny", "--nthreads", "3", "--memory-limit", "1e9"
    with started("worker", client.scheduler.address, *own):
        client.wait_for_workers(1, timeout=30)
        process.send_signal(signal.SIGSTOP)
        try:
            # A quarter of a second for the first, to tell; the package is not timed.
            assert time_builds() < 2
            assert time_builds() < 0.5
            # What dask's client was told before stands for the answer.
            workers = td.plan(td.gemm, A, A).cluster
            assert (workers.workers, workers.threads) == (1, 3)
            assert workers.memory.limit == 10**9
            np.save("A.npy", np.ones((4, 4)))
            with raises(EngineUnavailableError, "scheduler-silent"):
                td.multiply_files("A.npy", "A.npy", "C.npy")
        finally:
            process.send_signal(signal.SIGCONT)


def test_building_waits_for_no_scheduler_that_has_gone(scheduler):
    process, client = scheduler
    td.gemm(A, A)
    process.kill()
    process.wait()
    while client.status == "running":
        time.sleep(0.05)
    assert time_builds() < 1


def test_workers_that_lack_the_package_are_named(scheduler, tmp_path):
    package = tmp_path / "without" / "twom_dist"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ModuleNotFoundError('twom_dist')")
    _, client = scheduler
    with ExitStack() as stack:
        for name in ("a", "b"):
            folder = ["--local-directory", str(tmp_path / name)]
            own = [client.scheduler.address, "--nthreads", "1", *folder]
            path = os.pathsep.join([str(package.parent), ENVIRONMENT["PYTHONPATH"]])
            stack.enter_context(started("worker", *own, PYTHONPATH=path))
        client.wait_for_workers(2, timeout=30)
        for build in BUILDS[:3]:
            with raises(EngineUnavailableError, "lacks-twom-dist"):
                build()


def test_building_waits_once_for_a_worker_that_has_stopped(scheduler, tmp_path):
    _, client = scheduler
    folder = ["--local-directory", str(tmp_path)]
    own = [client.scheduler.address, "--nthreads", "1", "--no-nanny", *folder]
    with started("worker", *own), started("worker", *own) as stopped:
        client.wait_for_workers(2, timeout=30)
        stopped.send_signal(signal.SIGSTOP)
        time_builds()
        assert time_builds() < 3
