"""The tasks of a job: what they wait for, in what order they are done, what is left."""

import pytest
from distributed.diagnostics.plugin import SchedulerPlugin

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import sample
from tests.support.command import make, read, save
from tests.support.jobs import TILES, multiply
from twom_dist.api.files import multiply_files, update_files
from twom_dist.jobs import tiles


def stage_of(key):
    """Return ``twom-product`` of ("twom-product-<token>", i, j): not of fused tasks."""
    return key[0].rpartition("-")[0] if isinstance(key, tuple) else str(key)


class Notes(SchedulerPlugin):
    """Notes the tasks that are done, in order."""

    name = "notes"

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.done = []
        self.unplaced = []
        self.waited_for = set()

    def transition(self, key, start, finish, *args, **kwargs):
        if finish != "memory":
            return
        stage, task = stage_of(key), self.scheduler.tasks[key]
        self.done.append(stage)
        if stage == "twom-write":
            self.waited_for |= {stage_of(x.key) for x in task.dependencies}
        placed = task.worker_restrictions and task.loose_restrictions
        if stage == "twom-product" and not placed:
            self.unplaced.append(key)


@pytest.fixture
def notes(client):
    scheduler = client.cluster.scheduler
    made = Notes(scheduler)
    scheduler.add_plugin(made)
    yield made
    scheduler.remove_plugin(made.name)


@sample("routine", ["gemm", "herk"], ["herk"])
def test_tiles_are_written_while_others_are_computed(client, here, notes, routine):
    """Else a job that is stopped early keeps nothing."""
    # The tiles are so many that the first answers of the scheduler hardly count.
    save("A.npy", make(256, 96, 1))
    save("B.npy", make(96, 256, 2))
    with client.as_current():
        if routine == "gemm":
            summary = multiply_files("A.npy", "B.npy", "C.zarr", chunks=16)
            tiles, result = 256, "twom-product"
        else:
            summary = update_files(td.herk, "A.npy", "C.zarr", chunks=16)
            tiles, result = 136, "twom-update"
    assert summary.waves == 1
    # Which dask has not fused with what follows.
    assert notes.done.count("twom-product") == notes.done.count("twom-write") == tiles
    first = notes.done.index("twom-write")
    assert notes.done[:first].count("twom-product") < tiles / 4
    # A tile alone: what many of them wait for may be late.
    assert notes.waited_for == {result}
    assert notes.unplaced == []


@pytest.mark.parametrize("alone", [False, True])
def test_many_tiles_are_told_of_in_groups(client, files, notes, monkeypatch, alone):
    monkeypatch.setattr(tiles, "MOST_ENDS", 7)
    seen = []
    multiply(client=None if alone else client, progress=seen.append)
    assert [p.done for p in seen] == list(range(1, TILES + 1))
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    assert alone or "twom-written" in notes.done
    # dask has fused no product with what follows.
    assert not any("-twom-" in stage for stage in notes.done)
