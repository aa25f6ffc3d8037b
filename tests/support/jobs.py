"""Jobs on three small matrices in the current folder, for tests."""

import time
from contextlib import contextmanager

import dask
import psutil
import pytest
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context

import twom_dist as td
from twom_dist.jobs import begin, compute
from twom_dist.plan import Cluster
from twom_dist.plan.cluster import INTERPRETER_BYTES, SPILL, MemoryBudget
from twom_dist.store import find_unfinished

# Of A.zarr, B.npy and C0.h5; in tiles of 16.
M, K, N = 70, 30, 90
TILES = 5 * 6


# How dask starts the processes of workers.
METHOD = "distributed.worker.multiprocessing-method"
# What workers need, but for what takes threads.
IMPORTED = ["distributed", "twom_dist.jobs", "twom_dist.kernels.cpu.engine", "zarr"]


# Where clusters start. By default workers of this process talk within it, for which
# dask looks for a route to the internet and warns if there is none.
HERE = {"protocol": "tcp", "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
IN_PROCESS = HERE | {"processes": False}


@contextmanager
def local_workers(count, default=False, **options):
    """Start workers, and yield a client that serves only who names it.

    They are forked from a process that has imported what takes 2 s of each.
    """
    options = {"threads_per_worker": 1} | HERE | options | {"n_workers": count}
    with dask.config.set({METHOD: "forkserver"}):
        # dask's own list of imports is set by the first who asks.
        get_mp_context().set_forkserver_preload(IMPORTED)
        cluster = LocalCluster(**options)
        with cluster, Client(cluster, set_as_default=default) as made:
            yield made


def multiply(output="C.zarr", **options):
    return td.multiply_files("A.zarr", "B.npy", output, **{"chunks": 16, **options})


def small_cluster(job, way, tile=16):
    """Describe two workers with just so little memory that a job goes a way.

    "waves": they hold a third of it at once, or less; "streams": every task reads what
    it multiplies, since they hold no part.
    """
    for exponent in range(80, 48, -1):
        limit = (INTERPRETER_BYTES + 2 ** (exponent / 4)) / SPILL
        cluster = Cluster(2, 1, MemoryBudget(int(limit), "job"))
        layout = job.lay_out(cluster, tile)
        in_waves = len(layout.waves) > (2 if way == "waves" else 0)
        if layout.streams if way == "streams" else in_waves:
            return cluster
    raise AssertionError("one wave holds it all")


def compute_in(way, job, client=None, progress=None, enter=None, tile=16):
    with begin(job, small_cluster(job, way, tile), tile) as run:
        return compute(run, client, progress, enter=enter or (lambda _: None))


def at(tiles, act):

    def progress(progress):
        if progress.done == tiles:
            act()

    return progress


def stop_after(tiles, run):
    """Interrupt a job when so many tiles are finished; return the exception."""

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        run(progress=at(tiles, interrupt))
    return caught.value


def finished(output="C.zarr"):
    left = find_unfinished(output).find()
    assert left is not None
    return left[0].list_finished()


def addresses(client):
    """Addresses of the workers, asked of the scheduler.

    `Client.scheduler_info` may find none: every two seconds a client overwrites what it
    has just been told with information that omits the workers (distributed 2026.8).
    """
    return sorted(
        client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.workers])
    )


def task_names(client):
    names = client.run_on_scheduler(
        lambda dask_scheduler: list(map(str, dask_scheduler.tasks))
    )
    return [name for name in names if "twom-" in name]


def open_ports(pids):
    return {
        x.laddr
        for x in psutil.net_connections("inet")
        if x.pid in pids and x.status == psutil.CONN_LISTEN
    }


def wait_until(condition, seconds=120, every=0.02):
    """Wait for what takes a moment; `every`: seconds between two looks."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(every)
