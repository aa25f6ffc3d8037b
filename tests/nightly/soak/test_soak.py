"""Many products on one cluster leave nothing behind."""

from pathlib import Path

import psutil

import twom_dist as td
from tests.support.command import make, save
from tests.support.jobs import task_names, wait_until


def measure(dask_worker):
    """Return tiles, encoded tiles, open files, threads and bytes of a worker."""
    from twom_dist.tiles.cache import encoded_tiles

    process = psutil.Process()
    counts = (len(dask_worker.data), len(encoded_tiles), process.num_fds())
    return (*counts, process.num_threads(), process.memory_info().rss)


SHAPES = [(33, 47, 20), (5, 90, 64), (64, 1, 31), (20, 9, 130), (1, 1, 1), (70, 50, 40)]


def run_products(client, count):
    for turn in range(count):
        m, n, k = SHAPES[turn % len(SHAPES)]
        output = ("C.zarr", "C.npy", "C.h5")[turn % 3]
        options = {"client": client, "chunks": 16 + turn % 5, "overwrite": True}
        options |= {"num_moduli": 16} if turn % 2 else {}
        save("P.npy", make(m, k, turn))
        if turn % 4 == 3:
            td.rank_k_files(td.herk, "P.npy", output, **options)
        else:
            save("Q.npy", make(k, n, turn))
            td.multiply_files("P.npy", "Q.npy", output, **options)
        for path in ("P.npy", "Q.npy"):
            Path(path).unlink(missing_ok=True)


def test_many_products_leave_nothing(client, here):
    run_products(client, len(SHAPES))
    before = client.run(measure)
    process = psutil.Process()
    files_here, threads_here = process.num_fds(), process.num_threads()
    run_products(client, len(SHAPES))
    wait_until(lambda: not task_names(client))
    # Workers forget a little later than the scheduler.
    wait_until(lambda: not any(x for x, *_ in client.run(measure).values()))
    for address, (tiles, encoded, files, threads, rss) in client.run(measure).items():
        assert (tiles, encoded) == (0, 0)
        assert files <= before[address][2] + 2
        assert threads <= before[address][3] + 1
        assert rss <= before[address][4] + 16 * 2**20
    assert process.num_fds() <= files_here + 2
    assert process.num_threads() <= threads_here + 2
    assert not list(Path().glob(".*"))
