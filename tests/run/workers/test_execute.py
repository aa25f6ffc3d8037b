"""What a product asks the cluster that would compute it."""

import asyncio
import subprocess
import sys
from types import ModuleType
from unittest.mock import Mock

import dask.array as da
import distributed.worker
import pytest
from distributed import Client, LocalCluster, Scheduler, Worker

import twom_dist as td
from tests.support.expect import raises
from tests.support.jobs import HERE, IN_PROCESS, wait_until
from twom_dist.errors import MemoryLimitError
from twom_dist.plan.memory import MemoryBudget
from twom_dist.run import devices
from twom_dist.run.answers import answers_of
from twom_dist.run.client import current_cluster
from twom_dist.run.devices import WorkerDevice
from twom_dist.run.machine import machine_memory

# More than this process takes, or its workers would pause.
LIMIT = 4 * 2**30
WORKERS = IN_PROCESS | {
    "n_workers": 2,
    "threads_per_worker": 1,
    "memory_limit": LIMIT,
}
ELSEWHERE = f"""
from distributed import LocalCluster
with LocalCluster(**{WORKERS!r}) as cluster:
    print(cluster.scheduler_address, flush=True)
    input()
"""


@pytest.fixture(scope="module")
def address():
    """The scheduler of workers in another process."""
    command = [sys.executable, "-c", ELSEWHERE]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        yield process.stdout.readline().strip()
        process.communicate("\n", timeout=60)


def refuse_a_large_product():
    A = da.zeros((60000, 60000), dtype=complex, chunks=10000)
    with raises(MemoryLimitError, "memory"):
        td.gemm(A, A)
    found = current_cluster()
    assert (found.workers, found.threads, found.memory.limit) == (2, 1, LIMIT)
    small = da.zeros((30, 30), dtype=complex, chunks=10)
    assert td.plan(td.herk, small).cluster == found
    return td.herk(small)


def test_a_client_asks_its_workers(address):
    with Client(address):
        refuse_a_large_product()


def test_an_asynchronous_client_asks_workers_of_this_process():
    async def multiply():
        async with (
            LocalCluster(**WORKERS, asynchronous=True) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            C = await client.compute(refuse_a_large_product())
            assert C.shape == (30, 30)
            await asyncio.to_thread(refuse_a_large_product)

    asyncio.run(multiply())


def test_an_asynchronous_client_asks_workers_of_another_process(address):
    async def multiply():
        async with Client(address, asynchronous=True):
            refuse_a_large_product()
            await asyncio.to_thread(refuse_a_large_product)

    asyncio.run(multiply())


@pytest.mark.parametrize(
    ("limits", "smallest"),
    [((LIMIT, 0), LIMIT), ((0, 3 * LIMIT, LIMIT), LIMIT), ((0, 0), None)],
)
def test_the_smallest_memory_limit_counts(limits, smallest):
    async def describe():
        async with Scheduler(**HERE) as scheduler:
            workers = [
                await Worker(
                    scheduler.address, nthreads=1 + n, memory_limit=limit, **HERE
                )
                for n, limit in enumerate(limits)
            ]
            async with Client(scheduler.address, asynchronous=True):
                found = current_cluster()
            for worker in workers:
                await worker.close()
        return found

    found = asyncio.run(describe())
    assert (found.workers, found.threads) == (len(limits), len(limits))
    assert found.memory.limit == smallest


def test_without_a_client_the_machine_is_the_limit():
    found = current_cluster()
    assert (found.workers, found.memory.limit) == (1, machine_memory())


@pytest.fixture
def measured(monkeypatch):
    """Workers whose devices hold 2 GiB each, and two of which share one."""
    monkeypatch.setattr(devices, "measure_device", tell_device)
    with (
        LocalCluster(**WORKERS | {"n_workers": 3}) as cluster,
        Client(cluster) as client,
    ):
        yield client


def tell_device(dask_worker):
    """Tell what stands for the device of a worker."""
    return WorkerDevice(f"GPU {dask_worker.name // 2}", free_bytes=2 * 2**30)


def test_workers_are_asked_once_for_their_devices(measured, monkeypatch):
    run = Mock(side_effect=devices.ask_workers)
    monkeypatch.setattr(devices, "ask_workers", run)
    for _ in range(2):
        found = current_cluster("cuda")
        assert found.memory == MemoryBudget(2**30, "device")
        assert found.workers == 3
    assert current_cluster().memory == MemoryBudget(LIMIT)
    assert run.call_count == 1
    measured.cluster.scale(2)
    wait_until(lambda: current_cluster().workers == 2)
    # The other one has the second device alone, or the first.
    assert current_cluster("cuda").memory.limit in (2**30, 2 * 2**30)
    assert run.call_count == 2


def test_workers_without_a_device_limit_nothing(measured, monkeypatch):
    monkeypatch.setattr(devices, "measure_device", lambda: WorkerDevice(reason="none"))
    assert current_cluster("cuda").memory.limit is None


def test_workers_of_which_some_lack_a_device_are_told_of_once(measured, monkeypatch):
    def tell(dask_worker):
        return (
            tell_device(dask_worker) if dask_worker.name else WorkerDevice(reason="x")
        )

    monkeypatch.setattr(devices, "measure_device", tell)
    with pytest.warns(RuntimeWarning, match="1 of 3 workers have no GPU .*(x)"):
        assert current_cluster("cuda").memory == MemoryBudget(2 * 2**30, "device")
    assert current_cluster("cuda").workers == 3


@pytest.fixture
def on_gpu_host(monkeypatch):
    """Workers of this process, which see a GPU as dask does."""
    startup = distributed.worker.DEFAULT_STARTUP_INFORMATION
    monkeypatch.setitem(startup, "gpu", lambda worker: {"name": "NVIDIA H200"})
    with LocalCluster(**WORKERS) as cluster, Client(cluster) as client:
        yield client


def test_products_that_leave_gpus_idle_are_told_of_once(on_gpu_host, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_cuda", ModuleType("dask_cuda"))
    small = da.zeros((30, 30), dtype=complex, chunks=10)
    with pytest.warns(RuntimeWarning, match="NumPy blocks runs on cores") as told:
        td.herk(small)
    assert told[0].filename == __file__
    td.gemm(small, small)
    with Client(on_gpu_host.cluster), pytest.warns(RuntimeWarning):
        td.gemm(small, small)


def test_workers_on_cores_beside_gpus_are_no_news(on_gpu_host):
    td.herk(da.zeros((30, 30), dtype=complex, chunks=10))
    assert answers_of(on_gpu_host).idle_gpus is False
