"""Workers with little memory keep to their plans."""

from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import twom_dist as td
from tests.support.advice import MIB, SIDE, advised, memory_for, plan, room
from tests.support.expect import raises
from tests.support.jobs import IN_PROCESS
from twom_dist.errors import MemoryLimitError, MemoryWarning
from twom_dist.tiles.spec import Spec


@contextmanager
def workers(count, memory):
    """Workers of this process that say they have so much memory."""
    options = IN_PROCESS | {"n_workers": count, "memory_limit": memory}
    with (
        LocalCluster(threads_per_worker=1, **options) as cluster,
        Client(cluster),
    ):
        yield


@pytest.fixture
def held():
    """Inputs that are held, whatever the memory."""
    with dask.config.set({"twom-dist.inputs": "hold"}):
        yield


def test_tasks_keep_what_their_plan_has_room_for(held):
    memory = 2 * advised(td.gemm, 40 * MIB)
    A = da.zeros((SIDE, SIDE), dtype=complex, chunks=500)
    with workers(2, memory):
        products = td.gemm(A, A), td.herk(A)
    for product, routine in zip(products, (td.gemm, td.herk), strict=True):
        tasks = product.__dask_graph__().values()
        given = [x for task in tasks for x in getattr(task, "args", ())]
        specs = {x for x in given if isinstance(x, Spec)}
        assert {x.cache_bytes for x in specs} == {plan(routine, memory).cache_bytes}


def test_lazy_updates_are_refused_by_the_memory_of_the_triangle(held):
    A = da.zeros((SIDE, SIDE), dtype=complex, chunks=500)
    needed = advised(td.herk, MIB, uplo="lower")
    with workers(2, needed):
        with pytest.warns(MemoryWarning, match="cannot hold all"):
            td.herk(A, uplo="lower")
        with raises(MemoryLimitError, "memory"):
            td.gemm(A, A, op_b="C")
    with workers(2, needed // 2), raises(MemoryLimitError, "memory"):
        td.herk(A, uplo="lower")


def test_small_workers_give_the_same_bits():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((60, 50)) + 1j * rng.standard_normal((60, 50))
    a = da.from_array(A, chunks=20)
    sizes = {"chunks": 20, "n_workers": 1}
    with raises(MemoryLimitError, "memory") as caught:
        td.plan(td.gemm, A.shape, A.shape, op_b="C", memory_limit=1024, **sizes)
    needed = memory_for(MIB // 2)
    assert f"{needed // MIB} MiB" in caught.value.remedy
    with workers(1, needed):
        found = td.gemm(a, a, op_b="C").compute(scheduler="sync")
    assert (found == td.gemm(A, A, op_b="C")).all()


def test_a_refusal_can_be_overruled(held):
    A = da.zeros((SIDE, SIDE), dtype=complex, chunks=500)
    half = memory_for(room(advised(td.gemm, MIB)) // 2)
    with workers(2, half):
        with raises(MemoryLimitError, "memory") as caught:
            td.gemm(A, A)
        assert "refuse-memory" in caught.value.remedy
        with (
            dask.config.set({"twom-dist.refuse-memory": False}),
            pytest.warns(MemoryWarning, match="not enough memory") as told,
        ):
            product = td.gemm(A, A)
    assert told[0].filename == __file__
    # Nothing is kept that can be made again.
    tasks = product.__dask_graph__().values()
    given = [x for task in tasks for x in getattr(task, "args", ())]
    assert {x.cache_bytes for x in given if isinstance(x, Spec)} == {0}
