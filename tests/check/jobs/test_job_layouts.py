"""What jobs read and keep, by the layout alone."""

from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import pytest
import zarr

import twom_dist as td
from tests.support.expect import raises
from tests.support.jobs import at, multiply
from twom_dist.errors import PlanError, StoreError
from twom_dist.jobs import budget_for_job, open_job
from twom_dist.kernels.cpu import buffers
from twom_dist.plan import Cluster
from twom_dist.plan.memory import MemoryBudget

MIB = 2**20


@pytest.mark.parametrize(("pause", "counted"), [(0.4, 0.4), (False, 0.8)])
def test_the_fullest_worker_and_the_earliest_pause_count(pause, counted):
    workers = {"a": (700 * MIB, 0.8), "b": (100 * MIB, pause)}
    client = SimpleNamespace(run=lambda function, on_error: workers)
    budget = budget_for_job(Cluster(2, 1, MemoryBudget(1024 * MIB)), client).memory
    assert (budget.taken_bytes, budget.pause) == (700 * MIB, counted)


def test_what_a_worker_keeps_for_the_next_product_is_its_own(monkeypatch):
    """The setting of the client says nothing of it."""
    # Other tests have left memory that would be taken first.
    monkeypatch.setattr(buffers, "kept", buffers.KeptBuffers())
    measured = SimpleNamespace(
        monitor=SimpleNamespace(get_process_memory=lambda: 700 * MIB),
        memory_manager=SimpleNamespace(memory_pause_fraction=0.8),
    )
    client = SimpleNamespace(run=lambda look, on_error: {"a": look(measured)})
    with dask.config.set({"twom-dist.reuse-bytes": 64 * MIB}):
        buffers.empty((32 * MIB,), np.uint8)
        taken = budget_for_job(Cluster(), client).memory.taken_bytes
    assert taken == 700 * MIB - 32 * MIB


@pytest.mark.parametrize(
    ("options", "shape"),
    [({}, (1024, 1024, 2000)), ({"op_a": "T", "op_b": "T"}, (1000, 1000, 2048))],
)
def test_tiles_do_not_cut_the_chunks_of_the_files(here, options, shape):
    for name, chunks in {"A.zarr": (512, 100), "B.zarr": (500, 256)}.items():
        zarr.create_array(name, shape=(4000, 4000), dtype="c16", chunks=chunks)
    job = open_job(td.gemm.ask("A.zarr", "B.zarr", **options), "C.zarr")
    assert job.lay_out(Cluster(4, 1), tile=64).tile_shape == (64, 64, 64)
    assert job.lay_out(Cluster(4, 1)).tile_shape == shape


def test_tiles_are_whole_chunks_where_memory_permits(here):
    for name in ("A.zarr", "B.zarr"):
        zarr.create_array(name, shape=(9000, 9000), dtype="c16", chunks=(3000, 3000))
    job = open_job(td.gemm.ask("A.zarr", "B.zarr", num_moduli=8), "C.zarr")
    assert job.lay_out(Cluster(1, 1)).tile_shape == (3000, 3000, 3000)
    small = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": "1 GiB"}
    cut = td.plan(td.multiply_files, "A.zarr", "B.zarr", num_moduli=8, **small)
    # No tile has parts of two chunks.
    assert all(3000 % side == 0 for side in cut.tile_shape)
    assert cut.chunk_reads > 1
    assert cut.uncut_bytes > 2**30
    assert "rechunk the files, or give workers" in str(cut)
    enough = {**small, "memory_limit": cut.uncut_bytes}
    whole = td.plan(td.multiply_files, "A.zarr", "B.zarr", num_moduli=8, **enough)
    assert whole.chunk_reads == 1
    assert "rechunk" not in str(whole)


@pytest.mark.parametrize("chunks", [(3, 3), (0, 3, 3), (1.5, 3, 3), 0, 2.5, "3", [3]])
def test_chunks_are_one_number(files, chunks):
    with raises(PlanError, "tile"):
        multiply(chunks=chunks)


def test_a_folder_that_was_moved_can_be_moved_back(files):
    """A writer under way may have made a part of it again."""
    hidden = Path(".C.npy.unfinished")

    def move():
        hidden.rename("moved")
        (hidden / "0123456789ab.zarr" / "c").mkdir(parents=True)

    with raises(StoreError, "file-missing") as stopped:
        multiply("C.npy", progress=at(20, move))
    assert "move it back" in stopped.value.remedy
    Path("moved").rename(hidden)
    assert multiply("C.npy").resumed >= 20


def test_an_error_is_not_lost_by_one_that_it_leads_to(files, monkeypatch):
    """As where a store is not reached, to write nor to look what is there."""

    def fail(*given):
        raise ConnectionError("there is no route")

    def unplug(*given, **options):
        monkeypatch.setattr("twom_dist.store._tree.look_at_files", fail)
        fail()

    monkeypatch.setattr("zarr.create_array", unplug)
    with raises(StoreError, "file-damaged") as caught:
        multiply("C.npy")
    assert "written" in caught.value.problem
