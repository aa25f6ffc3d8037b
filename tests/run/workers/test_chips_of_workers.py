"""What method="auto" goes by for dask arrays: the chip of the workers, asked once."""

import time

import dask
import dask.array as da
import pytest
from distributed import Client, LocalCluster

import twom_dist as td
from tests.support.cuda.cupy_arrays import DeviceArray
from tests.support.jobs import IN_PROCESS
from tests.support.stages import count_stages
from twom_dist.crossover import chips, kept
from twom_dist.crossover.chips import NOT_SEEN, Chip, chip_of
from twom_dist.run.answers import answers_of
from twom_dist.run.client import most_common

CARD, CPU = Chip("NVIDIA GeForce RTX 4090", 89), Chip("A CPU of workers", vnni=True)


def pretend():
    """Put other chips in the place of this process's; runs on the workers."""
    chips.real, chips.chip_of = chips.chip_of, {"cuda": CARD, "cpu": CPU}.get


def stop():
    """Put them back."""
    chips.chip_of = chips.real


@pytest.fixture
def workers(client, tmp_path):
    """Workers on other chips than the client, the default client meanwhile."""
    client.run(pretend)
    with client.as_current(), dask.config.set({"twom-dist.crossovers": str(tmp_path)}):
        yield client
    client.run(stop)
    answers_of(client).chips.clear()


def lazy(n, family="numpy"):
    """Make a square matrix of two chunks."""
    x = da.zeros((n, n), dtype=complex, chunks=(n // 2, n))
    if family == "cupy":
        x._meta = x._meta.view(DeviceArray)
    return x


def method_of(n, *family):
    return td.plan(td.gemm, *[lazy(n, *family)] * 2, method="auto").method


def test_lazy_products_go_by_the_chip_of_the_workers(workers):
    # 3000 for the H200 that stands for a GPU that is not seen here.
    assert [method_of(n, "cupy") for n in (598, 600)] == ["blas", "2m"]
    told = td.plan(td.gemm, (600, 600), (600, 600), method="auto", engine="cuda")
    assert told.method == "blas"
    told = td.explain(td.herk, lazy(20), method="auto").choice
    assert told.endswith("; the workers would multiply on A CPU of workers")
    kept.write(CPU, "2026-01-02", {"gemm complex128": 10.0}, [])
    assert [method_of(n) for n in (28, 30)] == ["blas", "2m"]
    for n, looked in ((28, False), (30, True)):
        stages = count_stages(td.matmul(lazy(n), lazy(n)))
        assert ("twom-exponents" in stages) == looked
    # Asked once: bits do not change with the workers.
    workers.run(stop)
    assert method_of(600, "cupy") == "2m"
    workers.run(pretend)


def test_the_setting_asks_nobody(workers):
    with dask.config.set({"twom-dist.blas-below": 10}):
        assert method_of(600, "cupy") == "2m"
    assert not answers_of(workers).chips
    method_of(600, "cupy")


def silent(engine):
    """Name a chip too late; runs on the workers."""
    time.sleep(1)
    return CPU


def test_a_silent_worker_is_left_out(client, monkeypatch):
    first, *_ = client.nthreads()
    client.run(pretend)
    client.run(setattr, chips, "chip_of", silent, workers=[first])
    with client.as_current():
        monkeypatch.setattr("twom_dist.run.answers.OTHERS_SECONDS", 0.1)
        begin = time.monotonic()
        assert method_of(600, "cupy") == "2m"
        assert time.monotonic() - begin < 1
        assert answers_of(client).chips == {"cuda": CARD}
        answers_of(client).chips.clear()
    client.run(stop)


def test_without_an_answer_the_chip_is_that_of_this_process(client, monkeypatch):
    told = f"; this process would multiply on {chip_of('cpu').name}"
    with client.as_current():
        monkeypatch.setattr("twom_dist.run.answers.ANSWER_SECONDS", 0)
        assert td.explain(td.herk, lazy(20), method="auto").choice.endswith(told)
        assert answers_of(client).chips == {"cpu": None}
        answers_of(client).chips.clear()
        monkeypatch.undo()
        # No worker has a GPU.
        assert method_of(600, "cupy") == "blas"
        assert answers_of(client).chips == {"cuda": None}
        answers_of(client).chips.clear()
    with LocalCluster(n_workers=0, **IN_PROCESS) as cluster, Client(cluster) as other:
        assert method_of(20) == "blas"
        assert answers_of(other).chips == {}


def test_the_chip_of_most_workers_decides():
    other = Chip("NVIDIA A100", 80)
    assert most_common([CARD, other, CARD]) == CARD
    assert most_common([CARD, other]) == other == most_common([other, CARD])
    assert most_common([NOT_SEEN]) is most_common([]) is None
