"""Which workers the command starts for an engine."""

import pytest

from twom_dist.cli import workers
from twom_dist.cluster import local
from twom_dist.cluster.nvml import Gpu, Gpus


@pytest.mark.parametrize(
    ("engine", "count", "on_gpus"),
    [
        ("auto", None, True),
        ("auto", 1, True),
        ("auto", 3, False),
        ("cuda", None, True),
        ("cpu", None, False),
        ("reference", 1, False),
        # Threads of this process.
        ("auto", 0, False),
        ("cuda", 0, False),
    ],
)
def test_an_engine_has_workers_of_its_own(monkeypatch, engine, count, on_gpus):
    """On a machine with two GPUs, where dask-cuda is installed."""
    gpus = Gpus((Gpu("H200", 0, 0),) * 2, (13, 0))
    monkeypatch.setattr(local, "find_gpus", lambda: gpus)
    monkeypatch.setattr(local, "find_spec", lambda name: True)
    chosen = workers.choose_local_workers(engine, count, None, None, False)
    assert bool(chosen.gpus.visible) == on_gpus
    if on_gpus or count is not None:
        assert chosen.workers == (2 if count is None else max(1, count))
