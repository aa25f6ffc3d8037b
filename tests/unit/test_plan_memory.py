"""Plans of workers with little memory: the advice is enough, the cache gives way."""

import json
import re

import dask.array as da
import numpy as np
import pytest
import zarr

import twom_dist as td
from tests.command import CommandLine
from twom_dist.errors import MemoryLimitError
from twom_dist.jobs import find_room, open_job
from twom_dist.memory import USABLE_SHARE
from twom_dist.plan import Cluster

MIB = 2**20
PLANS = [td.plan_gemm, td.plan_herk, td.plan_syrk, td.plan_her2k]
SIDE = 3000


def plan(make, memory, **options):
    count = 2 if make in (td.plan_gemm, td.plan_her2k) else 1
    sizes = {"chunks": 500, "workers": 2, "worker_memory": memory}
    return make(*[(SIDE, SIDE)] * count, **sizes, **options)


def advised(make, memory, **options):
    """MiB that the refusal of so much memory names."""
    with pytest.raises(MemoryLimitError) as caught:
        plan(make, memory, **options)
    return int(re.search(r"give each at least (\d+) MiB", str(caught.value))[1])


@pytest.mark.parametrize("options", [{}, {"scaling": "accurate"}, {"method": "native"}])
@pytest.mark.parametrize("make", PLANS)
def test_following_the_advice_is_enough(make, options):
    for given in (1, 40, 150):
        needed = advised(make, given * MIB, **options)
        found = plan(make, needed * MIB, **options)
        assert found.peak_worker_bytes <= needed * MIB * USABLE_SHARE


@pytest.mark.parametrize("make", PLANS)
def test_encoded_tiles_give_way_before_anything_is_refused(make):
    needed = advised(make, 40 * MIB) * MIB
    kept = [plan(make, needed * half // 2).cache_bytes for half in (2, 3, 8)]
    assert kept[0] < kept[1] < kept[2]
    assert kept[0] < 0.05 * needed
    assert kept[2] == needed  # a quarter of what there is


def test_tasks_keep_what_their_plan_has_room_for(monkeypatch):
    memory = advised(td.plan_gemm, 40 * MIB) * MIB
    monkeypatch.setattr("twom_dist.lazy.current_cluster", lambda: Cluster(2, 1, memory))
    A = da.zeros((SIDE, SIDE), dtype=complex, chunks=500)
    for product, make in ((td.gemm(A, A), td.plan_gemm), (td.herk(A), td.plan_herk)):
        budgets = {
            spec.cache_bytes
            for task in product.__dask_graph__().values()
            for spec in _specs(task)
        }
        assert budgets == {plan(make, memory).cache_bytes}


def _specs(task):
    """Specs among the arguments of a task."""
    given = [getattr(x, "product", x) for x in getattr(task, "args", ())]
    return [x for x in given if hasattr(x, "cache_bytes")]


@pytest.mark.parametrize(
    ("chunks", "workers", "what"),
    [
        (10000, 97, "93 of 97 workers get no tile of C; smaller tiles (chunks) would"),
        (1000, 97, "17 of 97 workers get no tile of C; fewer workers do as well"),
    ],
)
def test_idle_workers_are_promised_what_they_would_get(chunks, workers, what):
    sizes = {"chunks": chunks, "workers": workers}
    assert what in str(td.plan_gemm((20000, 20000), (20000, 20000), **sizes))


def test_a_plan_of_files_minds_their_chunks(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in "AB":
        # Nothing is written but what they are.
        zarr.create_array(
            f"{name}.zarr", shape=(8000, 8000), chunks=(700, 700), dtype="c16"
        )
    memory = 1000 * MIB
    room = find_room(Cluster(4, 1, memory))
    layout = room.lay_out(open_job("A.zarr", "B.zarr", "C.zarr").lay_out)
    flags = ("--workers", "4", "--worker-memory", str(memory), "--json")
    code, out, _ = CommandLine(capsys)("plan", "A.zarr", "B.zarr", *flags)
    found = json.loads(out)
    assert (code, found["waves"]) == (0, len(layout.waves))
    assert found["tile_shape"] == list(layout.tile_shape)
    assert layout.tile_shape[2] % 700 == 0


def test_small_workers_give_the_same_bits(monkeypatch):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((60, 50)) + 1j * rng.standard_normal((60, 50))
    a = da.from_array(A, chunks=20)
    sizes = {"chunks": 20, "workers": 1}
    with pytest.raises(MemoryLimitError) as caught:
        td.plan_gemm(A.shape, A.shape, op_b="C", worker_memory=1024, **sizes)
    assert "least 1 MiB" in str(caught.value)
    monkeypatch.setattr("twom_dist.lazy.current_cluster", lambda: Cluster(1, 1, MIB))
    found = td.gemm(a, a, op_b="C").compute(scheduler="sync")
    assert (found == td.gemm(A, A, op_b="C")).all()
