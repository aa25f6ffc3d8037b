"""The tasks of a job: what they wait for, in what order they are done, what is left."""

import pytest
from distributed.diagnostics.plugin import SchedulerPlugin

import twom_dist as td
from tests.command import make, read, same_bits, save
from tests.jobs import TILES, multiply, task_names, wait_until
from twom_dist.jobs import arrays, multiply_files, update_files


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


@pytest.mark.parametrize("routine", ["gemm", "herk"])
def test_tiles_are_written_while_others_are_computed(client, here, notes, routine):
    """Else a job that is stopped early keeps nothing."""
    save("A.npy", make(192, 256, 1))
    save("B.npy", make(256, 192, 2))
    options = {"client": client, "tile": 16}
    if routine == "gemm":
        summary = multiply_files("A.npy", "B.npy", "C.zarr", **options)
        tiles, result = 144, "twom-product"
    else:
        summary = update_files("herk", "A.npy", "C.zarr", **options)
        tiles, result = 78, "twom-update"
    assert summary.waves == 1
    assert notes.done.count("twom-product") == notes.done.count("twom-write") == tiles
    assert (
        notes.done[: notes.done.index("twom-write")].count("twom-product") < tiles / 4
    )
    # A tile alone: what many of them wait for may be late.
    assert notes.waited_for == {result}
    assert notes.unplaced == []


@pytest.mark.parametrize("most", [arrays.MOST_ENDS, 7])
def test_the_current_client_computes_and_keeps_nothing(
    client, files, notes, monkeypatch, most
):
    monkeypatch.setattr(arrays, "MOST_ENDS", most)
    seen = []
    with client.as_current():
        multiply(progress=seen.append)
    assert [p.done for p in seen] == list(range(1, TILES + 1))
    multiply("D.zarr", client=None)
    assert same_bits(read("D.zarr"), read("C.zarr"))
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
    assert {"twom-product", "twom-write", "twom-exponents"} <= set(notes.done)
    # dask has fused no product with what follows.
    assert not any("-twom-" in stage for stage in notes.done)
    wait_until(lambda: not task_names(client))
    held = client.run(lambda dask_worker: len(dask_worker.data))
    assert set(held.values()) == {0}
