"""Inputs that tasks make by themselves, on workers some of which die."""

import os
import signal
from functools import partial

import dask
import dask.array as da
import h5py
import zarr
from distributed import Client, wait

import twom_dist as td
from tests.run.workers.test_placement_on_workers import block_behind, start_workers
from tests.support.bits import same_bits
from tests.support.jobs import wait_until
from tests.support.strategies import random_matrix

ROWS, K = 60, 200
CHUNKS = 20, 25


def test_stored_inputs_are_read_by_tasks_and_a_worker_may_die(tmp_path):
    a, b = (random_matrix(ROWS, K, seed=seed) for seed in (1, 2))
    zarr.create_array(tmp_path / "A.zarr", data=a, chunks=CHUNKS)
    with h5py.File(tmp_path / "B.h5", "w") as file:
        file["B"] = b
    gate = tmp_path / "gate"
    with (
        h5py.File(tmp_path / "B.h5") as file,
        start_workers(2, processes=True, threads_per_worker=3) as cluster,
        Client(cluster) as client,
        dask.config.set({"twom-dist.inputs": "stream"}),
    ):
        x = da.from_zarr(tmp_path / "A.zarr")
        y = da.from_array(file["B"], chunks=CHUNKS)
        # Until the gate opens no product has all that it needs.
        last = y.blocks[2:].map_blocks(partial(block_behind, gate), meta=y._meta)
        y = da.concatenate([y.blocks[:2], last])
        product = client.persist(td.her2k(x, y))
        wait_until(lambda: any(client.has_what().values()))
        pids = client.run(os.getpid)
        held = client.has_what()
        os.kill(pids[max(held, key=lambda worker: len(held[worker]))], signal.SIGKILL)
        gate.touch()
        wait(product)
        names = {key[0] for key in cluster.scheduler.tasks}
        found = product.compute()
    assert same_bits(found, td.her2k(a, b))
    # No task made a chunk for others.
    assert {name.split("-")[0] for name in names} == {"twom"}
