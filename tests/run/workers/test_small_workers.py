"""Workers with little memory keep to their plans."""

from contextlib import contextmanager

import dask
import dask.array as da
import pytest
from distributed import Client, LocalCluster

import twom_dist as td
from tests.support.advice import MIB, SIDE, advised, memory_for, plan, room
from tests.support.command import make
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
def zeros():
    return da.zeros((SIDE, SIDE), dtype=complex, chunks=500)


@pytest.fixture
def held():
    """Inputs that are held, whatever the memory."""
    with dask.config.set({"twom-dist.inputs": "hold"}):
        yield


def kept_bytes(product):
    """Bytes of encoded tiles that the tasks of a product may keep."""
    tasks = product.__dask_graph__().values()
    given = [x for task in tasks for x in getattr(task, "args", ())]
    return {x.cache_bytes for x in given if isinstance(x, Spec)}


def test_tasks_keep_what_their_plan_has_room_for(held, zeros):
    memory = 2 * advised(td.gemm, 40 * MIB)
    with workers(2, memory):
        for routine in (td.gemm, td.herk):
            product = routine(*[zeros] * (1 + (routine is td.gemm)))
            assert kept_bytes(product) == {plan(routine, memory).cache_bytes}


def test_lazy_updates_are_refused_by_the_memory_of_the_triangle(held, zeros):
    needed = advised(td.herk, MIB, uplo="lower")
    with workers(2, needed):
        with pytest.warns(MemoryWarning, match="cannot hold all"):
            td.herk(zeros, uplo="lower")
        with raises(MemoryLimitError, "memory"):
            td.gemm(zeros, zeros, op_b="C")
    with workers(2, needed // 2), raises(MemoryLimitError, "memory"):
        td.herk(zeros, uplo="lower")


def test_a_refusal_can_be_overruled(held, zeros):
    with workers(2, memory_for(room(advised(td.gemm, MIB)) // 2)):
        with raises(MemoryLimitError, "memory") as caught:
            td.gemm(zeros, zeros)
        assert "refuse-memory" in caught.value.remedy
        with (
            dask.config.set({"twom-dist.refuse-memory": False}),
            pytest.warns(MemoryWarning, match="not enough memory") as told,
        ):
            product = td.gemm(zeros, zeros)
    assert told[0].filename == __file__
    # Nothing is kept that can be made again.
    assert kept_bytes(product) == {0}


def test_small_workers_give_the_same_bits():
    whole = make(60, 50, 1)
    a = da.from_array(whole, chunks=20)
    with workers(1, memory_for(MIB // 2)):
        found = td.gemm(a, a, op_b="C").compute(scheduler="sync")
    assert (found == td.gemm(whole, whole, op_b="C")).all()
