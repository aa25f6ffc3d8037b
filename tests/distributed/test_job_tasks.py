"""The tasks of a job: what they wait for, and in what order they are done."""

import pytest
from distributed.diagnostics.plugin import SchedulerPlugin

from tests.command import make, save
from twom_dist.jobs import multiply_files, update_files


class Notes(SchedulerPlugin):
    """Notes the tiles that are computed and written, in order."""

    name = "notes"

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.done = []
        self.unplaced = []
        self.waited_for = set()

    def transition(self, key, start, finish, *args, **kwargs):
        stage = key[0].rpartition("-")[0] if isinstance(key, tuple) else ""
        if finish != "memory" or stage not in ("twom-product", "twom-write"):
            return
        self.done.append(stage)
        task = self.scheduler.tasks[key]
        if stage == "twom-write":
            self.waited_for |= {
                x.group.name.rpartition("-")[0] for x in task.dependencies
            }
        elif not (task.worker_restrictions and task.loose_restrictions):
            self.unplaced.append(key)


@pytest.fixture
def notes(client):
    scheduler = client.cluster.scheduler
    made = Notes(scheduler)
    scheduler.add_plugin(made)
    yield made
    scheduler.remove_plugin(made.name)


@pytest.mark.parametrize("routine", ["gemm", "herk"])
def test_tiles_are_written_while_others_are_computed(
    client, tmp_path, monkeypatch, notes, routine
):
    """Else a job that is stopped early keeps nothing."""
    monkeypatch.chdir(tmp_path)
    save("A.npy", make(192, 256, 1))
    save("B.npy", make(256, 192, 2))
    options = {"client": client, "tile": 16}
    if routine == "gemm":
        summary = multiply_files("A.npy", "B.npy", "C.zarr", **options)
    else:
        summary = update_files("herk", "A.npy", "C.zarr", **options)
    assert summary.waves == 1
    products = notes.done.count("twom-product")
    assert (
        products == notes.done.count("twom-write") == (144 if routine == "gemm" else 78)
    )
    assert notes.done.index("twom-write") < products // 4
    # A tile alone: what many of them wait for may be late.
    assert notes.waited_for == {"twom-product" if routine == "gemm" else "twom-update"}
    assert notes.unplaced == []
