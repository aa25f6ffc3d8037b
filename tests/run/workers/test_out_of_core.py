"""Matrices larger than the workers: what is read, and the memory it takes."""

import os
import threading

import numpy as np
import psutil
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.command import make
from tests.support.jobs import local_workers
from twom_dist.jobs import Job
from twom_dist.plan.memory import INTERPRETER_BYTES, MemoryBudget
from twom_dist.store import open_matrix

MIB = 2**20
WORKERS = 2
# Of which dask lets 35 MiB be filled with tiles: the interpreter and the libraries take
# more than half, so that a test with much less would be one of them.
LIMIT = 553 * MIB


@pytest.fixture(scope="module")
def client():
    with local_workers(WORKERS, memory_limit=LIMIT) as made:
        yield made


def count_reads(dask_worker=None):
    """Have this process add up the bytes that it reads of matrices."""
    from twom_dist.store import reader

    if not hasattr(reader, "bytes_read"):
        read = reader.StoredMatrix.__getitem__

        def counting(self, index):
            values = read(self, index)
            reader.bytes_read += values.nbytes
            return values

        reader.StoredMatrix.__getitem__ = counting
    reader.bytes_read = 0


def get_reads(dask_worker=None):
    from twom_dist.store import reader

    return reader.bytes_read


class Sampler(threading.Thread):
    """Watches the workers of a cluster from outside."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.processes = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
        self.workers = client.cluster.scheduler.workers
        self.process_bytes = self.managed_bytes = 0
        self.paused = False
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(0.02):
            memory = (process.memory_info().rss for process in self.processes)
            self.process_bytes = max(self.process_bytes, *memory)
            for state in list(self.workers.values()):
                self.managed_bytes = max(self.managed_bytes, state.nbytes)
                self.paused |= state.status.name == "paused"


def test_matrices_four_times_the_memory(client, here, monkeypatch):
    m, n, k, options = 4500, 4500, 128, {"num_moduli": 4}
    np.save("A.npy", make(m, k, 1))
    np.save("B.npy", make(k, n, 2))
    layouts = []

    def lay_out_and_tell(self, cluster, tile=None):
        layouts.append((plain(self, cluster, tile), cluster))
        return layouts[-1][0]

    plain = Job.lay_out
    monkeypatch.setattr(Job, "lay_out", lay_out_and_tell)
    client.run(count_reads)
    sampler = Sampler(client)
    sampler.start()
    summary = td.multiply_files("A.npy", "B.npy", "C.npy", client=client, **options)
    sampler.ended.set()
    sampler.join()
    ((layout, cluster),) = layouts
    # What the layout reads, and the predicted peak of its fullest wave.
    sides = [layout.grid_of(wave).shape for wave in layout.waves]
    read = sum(16 * k * (m + n) for m, n, k in sides)
    peak = max(layout.plan(x, cluster).peak_worker_bytes for x in layout.waves)
    room = MemoryBudget(LIMIT, "job").stretch().tile_bytes
    matrices = sum(os.path.getsize(f"{name}.npy") for name in "ABC")
    assert matrices > 4 * WORKERS * room
    assert LIMIT < 2 * INTERPRETER_BYTES
    assert summary.waves > 4
    assert sum(client.run(get_reads).values()) <= 1.2 * read
    assert sampler.process_bytes <= INTERPRETER_BYTES + peak
    assert sampler.managed_bytes <= peak
    assert not sampler.paused
    # Any rows of the result are the product of those rows.
    rows = slice(3000, 3032)
    expected = td.gemm(open_matrix("A.npy")[rows, :], np.load("B.npy"), **options)
    assert same_bits(open_matrix("C.npy")[rows, :], expected)
