"""Which workers the command starts for an engine."""

import pytest

from twom_dist.cli import workers
from twom_dist.cluster.local import Machine
from twom_dist.cluster.nvml import Gpu, Gpus

GIB = 2**30
GPUS = Gpus((Gpu("H200", 0, 0),) * 2, (13, 0))


@pytest.fixture(autouse=True)
def eight_cores_and_two_gpus(monkeypatch):
    """The machine on which workers start, where dask-cuda is installed."""

    def find(gpus, n_workers=None):
        cores = gpus is False or (gpus is None and (n_workers or 1) > 2)
        return Machine(8, 16 * GIB, Gpus() if cores else GPUS)

    monkeypatch.setattr(workers, "find_machine", find)


@pytest.mark.parametrize(
    ("engine", "count", "expected"),
    [
        ("auto", None, (2, 1, True)),
        ("auto", 1, (1, 1, True)),
        ("auto", 3, (3, 2, False)),
        ("cuda", None, (2, 1, True)),
        ("cpu", None, (4, 2, False)),
        ("reference", 1, (1, 8, False)),
        # Threads of this process.
        ("auto", 0, (1, 8, False)),
        ("cuda", 0, (1, 8, False)),
    ],
)
def test_an_engine_has_workers_of_its_own(engine, count, expected):
    local = workers.choose_local_workers(engine, count, None, None, False)
    assert (local.workers, local.threads, bool(local.gpus.visible)) == expected
    assert local.cluster.memory.limit == 16 * GIB // local.workers
