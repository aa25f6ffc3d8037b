"""What tests of jobs share."""

import pytest

from tests.command import save_operands
from twom_dist.cli.workers import LocalWorkers, start_workers
from twom_dist.jobs import recording

GIB = 2**30
# Of A, B and C: m, k and n. Tiles of 16 are 5 x 6.
SHAPE = (70, 50, 90)


@pytest.fixture(scope="session")
def client():
    """Two workers, for every test that does not harm them."""
    local = LocalWorkers(workers=2, threads=1, memory_bytes=2 * GIB, dashboard=False)
    with start_workers(local, debug=False) as made:
        yield made


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A.zarr, B.npy and C0.h5 in a folder of their own, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return save_operands(*SHAPE)


@pytest.fixture
def every_tile_recorded(monkeypatch):
    """Record every tile, where jobs of seconds would record none."""
    monkeypatch.setattr(recording, "RECORD_SECONDS", 0)
    monkeypatch.setattr(recording, "RECORD_SHARE", 1e9)
