"""What building a product asks its cluster, which may be silent or gone."""

import asyncio
import os
import signal
from contextlib import ExitStack

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import twom_dist as td
from tests.support.command import ENVIRONMENT
from tests.support.cuda.cupy_arrays import DeviceArray
from tests.support.expect import raises
from tests.support.jobs import IN_PROCESS, wait_until
from tests.support.workers import started
from twom_dist.errors import EngineUnavailableError, MemoryLimitError
from twom_dist.workers import answers, devices
from twom_dist.workers.devices import WorkerDevice

# More than this process takes, or its workers would pause.
LIMIT = 4 * 2**30
WORKERS = {"threads_per_worker": 1, "memory_limit": LIMIT, **IN_PROCESS, "n_workers": 2}
A = da.ones((60, 60), dtype=complex, chunks=30)
STACK = da.ones((4, 20, 20), chunks=(2, 20, 20))


def cluster_of(*matrices):
    return td.plan(td.gemm, *(matrices or (A, A))).cluster


def refuse_a_large_product():
    large = da.zeros((60000, 60000), dtype=complex, chunks=10000)
    with raises(MemoryLimitError, "memory"):
        td.gemm(large, large)
    found = cluster_of()
    assert (found.workers, found.threads, found.memory.limit) == (2, 1, LIMIT)
    return td.herk(A)


def test_clients_of_every_kind_ask_workers_of_any_process(scheduler, tmp_path):
    async def multiply(client):
        C = await client.compute(refuse_a_large_product())
        assert C.shape == (60, 60)
        await asyncio.to_thread(refuse_a_large_product)

    async def here():
        async with (
            LocalCluster(**WORKERS, asynchronous=True) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            await multiply(client)

    async def there(address):
        async with Client(address, asynchronous=True) as client:
            await multiply(client)

    asyncio.run(here())
    _, client = scheduler
    address = client.scheduler.address
    own = [address, "--no-nanny", "--nthreads", "1", "--memory-limit", str(LIMIT)]
    own += ["--local-directory", str(tmp_path)]
    with started("worker", *own), started("worker", *own):
        client.wait_for_workers(2, timeout=60)
        refuse_a_large_product()
        asyncio.run(there(address))


def on_device(n):
    x = da.zeros((n, n), dtype=complex, chunks=(n // 2, n))
    x._meta = x._meta.view(DeviceArray)
    return x


def test_the_fullest_device_counts_and_one_without_is_told_of(monkeypatch):
    """Two of three workers share a device of 2 GiB."""

    def tell(dask_worker):
        number = dask_worker.name
        if number in missing:
            return WorkerDevice(reason="x")
        return WorkerDevice(f"GPU {number // 2}", free_bytes=2 * 2**30)

    monkeypatch.setattr(devices, "measure_device", tell)
    for missing, limit in (((), 2**30), ((0,), 2 * 2**30), ((0, 1, 2), None)):
        with LocalCluster(**WORKERS | {"n_workers": 3}) as cluster, Client(cluster):
            if missing == (0,):
                with pytest.warns(RuntimeWarning, match="1 of 3 workers have no GPU"):
                    cluster_of(on_device(30), on_device(30))
            found = cluster_of(on_device(30), on_device(30))
            assert (found.workers, found.memory.limit) == (3, limit)
            # Asked once, and of the host's memory for other blocks.
            assert cluster_of().memory.limit == LIMIT


BUILDS = [
    lambda: td.gemm(A, A),
    lambda: td.herk(A),
    lambda: td.gemm(STACK, STACK),
    lambda: td.matmul(A, A),
    lambda: td.plan(td.gemm, A, A),
]


@pytest.fixture
def unanswered(monkeypatch):
    """Build lazy products and plans; add up how long they waited for no answer.

    Their own time is not counted, on a machine that may be busy.
    """
    waited, ask, gather = [], answers._ask, answers._gather

    def asking(client, question, seconds):
        found = ask(client, question, seconds)
        waited.extend([seconds] * (found is None))
        return found

    async def gathering(client, workers, function, seconds):
        found = await gather(client, workers, function, seconds)
        waited.extend([seconds] * (len(found) < len(workers)))
        return found

    def build_all():
        waited.clear()
        for build in BUILDS:
            build()
        return sum(waited)

    monkeypatch.setattr(answers, "_ask", asking)
    monkeypatch.setattr(answers, "_gather", gathering)
    return build_all


def test_building_waits_for_none_that_has_stopped_or_gone(scheduler, here, unanswered):
    process, client = scheduler
    own = client.scheduler.address, "--no-nanny", "--local-directory", str(here)
    one, other = (
        started("worker", *own, "--nthreads", threads, "--memory-limit", limit)
        for threads, limit in (("3", "1e9"), ("1", "3e9"))
    )
    with one, other as stopped:
        client.wait_for_workers(2, timeout=30)
        stopped.send_signal(signal.SIGSTOP)
        unanswered()  # it waits once
        assert unanswered() < 3
        process.send_signal(signal.SIGSTOP)
        try:
            # A quarter of a second for the first, to tell.
            assert 0 < unanswered() < 1
            assert unanswered() == 0
            # The last answer stands for this one.
            found = cluster_of()
            assert (found.workers, found.threads) == (2, 3)
            assert found.memory.limit == 10**9
            np.save("A.npy", np.ones((4, 4)))
            with raises(EngineUnavailableError, "scheduler-silent"):
                td.multiply_files("A.npy", "A.npy", "C.npy")
        finally:
            process.send_signal(signal.SIGCONT)
    process.kill()
    process.wait()
    wait_until(lambda: client.status != "running")
    assert unanswered() == 0


def test_workers_that_lack_the_package_are_named(scheduler, tmp_path):
    package = tmp_path / "without" / "twom_dist"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ModuleNotFoundError('twom_dist')")
    path = os.pathsep.join([str(package.parent), ENVIRONMENT["PYTHONPATH"]])
    _, client = scheduler
    with ExitStack() as stack:
        for name in ("a", "b"):
            folder = ["--local-directory", str(tmp_path / name)]
            own = [client.scheduler.address, "--nthreads", "1", *folder]
            stack.enter_context(started("worker", *own, PYTHONPATH=path))
        client.wait_for_workers(2, timeout=30)
        for build in BUILDS[:3]:
            with raises(EngineUnavailableError, "lacks-twom-dist"):
                build()
