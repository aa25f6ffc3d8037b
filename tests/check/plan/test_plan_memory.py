"""Plans of workers with little memory: the advice is enough, the cache gives way."""

import json
import re
from collections import Counter
from functools import partial

import dask
import dask.array as da
import pytest
import zarr

import twom_dist as td
from tests.support.advice import MIB, SIDE, advised, memory_for, plan, room
from tests.support.cases import cases
from tests.support.command import CommandLine
from tests.support.expect import raises
from tests.support.layouts import lay_out
from twom_dist.errors import MemoryLimitError
from twom_dist.jobs import budget_for_job, open_job
from twom_dist.plan import Cluster, planner
from twom_dist.plan.memory import CACHE_SHARE, MemoryBudget

WAYS = {"n_workers": r"use (\d+) workers", "chunks": r"use chunks of (\d+)"}
ROUTINES = [td.gemm, td.herk, td.syrk, td.her2k, td.syr2k]


@cases("inputs", [("hold", 1), ("hold", 40), ("hold", 150), ("auto", 1)])
@cases("options", [{}, {"beta": 2}, {"method": "blas"}])
@cases("routine", ROUTINES)
def test_following_the_advice_is_enough(routine, options, inputs):
    how, given = inputs
    with dask.config.set({"twom-dist.inputs": how}):
        needed = advised(routine, given * MIB, **options)
        found = plan(routine, needed, **options)
    assert found.streams == (how == "auto")
    assert found.least_worker_bytes <= room(needed)


@cases("chunks", [500, 1500, 3000])
@cases("how", ["hold", "auto"])
@cases("routine", ROUTINES)
def test_every_way_out_that_is_named_is_one(routine, how, chunks):
    shapes = [(SIDE, SIDE)] * (1 if routine in (td.herk, td.syrk) else 2)
    make, ways = partial(td.plan, routine, *shapes), Counter()
    with dask.config.set({"twom-dist.inputs": how}):
        for limit in (500 * MIB, 600 * MIB, 700 * MIB, 1000 * MIB):
            sizes = {"chunks": chunks, "n_workers": 2, "memory_limit": limit}
            try:
                make(**sizes)
            except MemoryLimitError as error:
                for name, pattern in WAYS.items():
                    if found := re.search(pattern, error.remedy):
                        make(**sizes | {name: int(found[1])})
                        ways[name] += 1
    assert ways["chunks"] > 0 or chunks == 500
    assert ways["n_workers"] == 0 or how == "hold"


@pytest.mark.parametrize(("rows", "divided"), [(4000, 500), (1563, 521), (20000, 625)])
def test_chunks_that_are_named_divide_those_that_are_there(rows, divided):
    given = {"op": "C", "n_workers": 2, "memory_limit": "500 MiB"}
    make = partial(da.zeros, (100 * rows, 400), dtype="c16")
    with raises(MemoryLimitError, "memory") as caught:
        td.plan(td.herk, make(chunks=(rows, 400)), **given)
    assert f"A = da.from_array(A, chunks=({divided}, 400))" in caught.value.remedy
    assert td.plan(td.herk, make(chunks=(divided, 400)), **given)


def test_inputs_are_held_if_they_fit_beside_the_result():
    # Everything fits; the result; only its tiles on their way.
    for size, streams, whole in [(400, 0, True), (300, 1, True), (100, 1, False)]:
        memory = memory_for(int(0.8 * size * MIB))
        found, usable = plan(td.gemm, memory), room(memory)
        assert found.streams == streams
        assert (found.peak_worker_bytes <= usable) == whole
        assert found.least_worker_bytes <= usable
    with dask.config.set({"twom-dist.inputs": "hold"}):
        memory = memory_for(200 * MIB)
        found = plan(td.herk, memory)
    assert not found.streams
    assert found.least_worker_bytes <= room(memory)
    assert found.least_worker_bytes < found.peak_worker_bytes


@pytest.mark.parametrize("routine", ROUTINES)
def test_encoded_tiles_give_way_before_anything_is_refused(routine, monkeypatch):
    monkeypatch.setattr(planner, "KEPT_SHARE", 10)
    with dask.config.set({"twom-dist.inputs": "hold"}):
        needed = room(advised(routine, 40 * MIB))
        memory = [memory_for(needed * half // 2) for half in (2, 3, 8)]
        kept = [plan(routine, limit).cache_bytes for limit in memory]
    assert kept[0] < kept[1] < kept[2]
    assert kept[0] < 0.05 * needed
    # What a share allows of four times the need.
    assert kept[2] == pytest.approx(CACHE_SHARE * 4 * needed, rel=0.01)


def test_encoded_tiles_take_a_share_of_what_is_held():
    limited, free = plan(td.gemm, 2000 * MIB), plan(td.gemm, None)
    held = limited.memory.inputs + limited.memory.outputs
    assert limited.cache_bytes == int(planner.KEPT_SHARE * held)
    assert free.cache_bytes == 2**31


@cases(("routine", "sums"), [(td.gemm, 1), (td.herk, 1), (td.her2k, 2)])
def test_sums_of_parts_are_held_until_they_are_added(routine, sums):
    shapes = [(1000, 100_000)] * (1 if routine is td.herk else 2)
    given = {"op_b": "C"} if routine is td.gemm else {}
    given |= {"chunks": 1000, "memory_limit": "4 GiB"}
    with dask.config.set({"twom-dist.inputs": "stream"}):
        whole, cut = (td.plan(routine, *shapes, n_workers=x, **given) for x in (1, 4))
    assert (len(whole.grid.parts), len(cut.grid.parts)) == (1, 4)
    waiting = 1000**2 * sums * cut.spec.system.num_products
    assert cut.memory.temporaries == whole.memory.temporaries + waiting


def test_a_plan_of_files_minds_their_chunks(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in "AB":
        # Nothing is written but what they are.
        zarr.create_array(
            f"{name}.zarr", shape=(8000, 8000), chunks=(700, 700), dtype="c16"
        )
    memory = 1600 * MIB
    cluster = budget_for_job(Cluster(4, 1, MemoryBudget(memory)))
    layout = open_job(td.gemm.ask("A.zarr", "B.zarr"), "C.zarr").lay_out(cluster)
    flags = ("--n-workers", "4", "--memory-limit", str(memory), "--json")
    code, out, _ = CommandLine(capsys)("plan", "gemm", "A.zarr", "B.zarr", *flags)
    found = json.loads(out)
    assert (code, found["waves"]) == (0, len(layout.waves))
    assert found["tile_shape"] == list(layout.tile_shape)
    assert layout.tile_shape[2] % 700 == 0
    workers = {"n_workers": 4, "memory_limit": memory}
    shape = (8000, 8000)
    for given in (("A.zarr", zarr.open("B.zarr"), "C.zarr"), ("A.zarr", shape)):
        same = td.plan(td.multiply_files, *given, overwrite=True, **workers)
        assert same.tile_shape[2] % 700 == 0
        # A shape has no chunks to be cut.
        if len(given) == 3:
            assert json.loads(same.to_json()) == found
            assert same.waves > 1
            assert f" in {same.waves} waves, " in str(same)
    alone = td.plan(td.multiply_files, "A.zarr", "B.zarr", routine=td.zgemm, alpha=2)
    assert (alone.n_workers, alone.spec.alpha) == (1, 2)


def test_tiles_that_do_not_fit_lose_half_of_k_first():
    cluster = budget_for_job(Cluster(2, 1, MemoryBudget(600 * MIB)))
    layout = lay_out((300, 300, 60_000), "c16", cluster, chunks=(300, 300, 2000))
    assert layout.tile_shape == (300, 300, 1000)
    assert layout.read_chunks((300, 300, 2000)) == 2


def test_a_plan_of_more_waves_than_anybody_would_wait_for_is_refused():
    with raises(MemoryLimitError, "many-waves"):
        lay_out((1_000_000,) * 3, "c16", Cluster(4, 1, MemoryBudget(64 * MIB)))
