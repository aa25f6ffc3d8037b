"""Plans of workers with little memory: the advice is enough, the cache gives way."""

import json
import re
from contextlib import contextmanager

import pytest
import zarr
from distributed import Client, LocalCluster

import twom_dist as td
from tests.support.cases import cases
from tests.support.command import CommandLine
from tests.support.expect import raises
from tests.support.jobs import IN_PROCESS
from tests.support.layouts import lay_out
from twom_dist.errors import MemoryLimitError
from twom_dist.jobs import budget_for_job, open_job
from twom_dist.plan import Cluster
from twom_dist.plan.memory import PRODUCT_SHARE, MemoryBudget

MIB = 2**20
ROUTINES = [td.gemm, td.herk, td.syrk, td.her2k, td.syr2k]
SIDE = 3000


def plan(routine, memory, **options):
    count = 1 if routine in (td.herk, td.syrk) else 2
    sizes = {"chunks": 500, "n_workers": 2, "memory_limit": memory}
    return td.plan(routine, *[(SIDE, SIDE)] * count, **sizes, **options)


def advised(routine, memory, **options):
    """MiB that the refusal of so much memory names."""
    with raises(MemoryLimitError, "memory") as caught:
        plan(routine, memory, **options)
    return int(re.search(r"(\d+) MiB", caught.value.remedy)[1])


@contextmanager
def workers(count, memory):
    """Workers of this process that say they have so much memory."""
    options = IN_PROCESS | {"n_workers": count, "memory_limit": memory}
    with (
        LocalCluster(threads_per_worker=1, **options) as cluster,
        Client(cluster),
    ):
        yield


@cases("options", [{}, {"beta": 2}, {"method": "blas"}])
@cases("routine", ROUTINES)
def test_following_the_advice_is_enough(routine, options):
    for given in (1, 40, 150):
        needed = advised(routine, given * MIB, **options)
        found = plan(routine, needed * MIB, **options)
        assert found.peak_worker_bytes <= needed * MIB * PRODUCT_SHARE


@pytest.mark.parametrize("routine", ROUTINES)
def test_encoded_tiles_give_way_before_anything_is_refused(routine):
    needed = advised(routine, 40 * MIB) * MIB
    kept = [plan(routine, needed * half // 2).cache_bytes for half in (2, 3, 8)]
    assert kept[0] < kept[1] < kept[2]
    assert kept[0] < 0.05 * needed
    assert needed - 1 <= kept[2] <= needed  # a quarter of what there is


def test_a_plan_of_files_minds_their_chunks(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in "AB":
        # Nothing is written but what they are.
        zarr.create_array(
            f"{name}.zarr", shape=(8000, 8000), chunks=(700, 700), dtype="c16"
        )
    memory = 1000 * MIB
    cluster = budget_for_job(Cluster(4, 1, MemoryBudget(memory)))
    layout = open_job(td.gemm.ask("A.zarr", "B.zarr"), "C.zarr").lay_out(cluster)
    flags = ("--n-workers", "4", "--memory-limit", str(memory), "--json")
    code, out, _ = CommandLine(capsys)("plan", "gemm", "A.zarr", "B.zarr", *flags)
    found = json.loads(out)
    assert (code, found["waves"]) == (0, len(layout.waves))
    assert found["tile_shape"] == list(layout.tile_shape)
    assert layout.tile_shape[2] % 700 == 0


def test_a_plan_of_more_waves_than_anybody_would_wait_for_is_refused():
    with raises(MemoryLimitError, "many-waves"):
        lay_out((1_000_000,) * 3, "c16", Cluster(4, 1, MemoryBudget(8 << 30)))
