"""Lazy products on workers: the bits of NumPy, whoever dies, drops or takes tiles."""

import logging
import os
import signal
import time
from contextlib import ExitStack
from functools import lru_cache, partial

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import zarr
from distributed import wait

import twom_dist as td
from tests.support.cases import sample
from tests.support.expect import same_bits
from tests.support.jobs import addresses, multiply, wait_until
from tests.support.strategies import random_matrix
from tests.support.workers import block_behind, drawn, start_workers

M, N, K = 23, 19, 31
# Chunks of m, n and k.
TILINGS = {
    "even": ((8, 8, 7), (8, 8, 3), (8, 8, 8, 7)),
    "k alone": ((23,), (19,), (5, 5, 5, 5, 5, 5, 1)),
    "ragged": ((1, 15, 7), (2, 17), (30, 1)),
}
ABC = [random_matrix(*x, seed=s) for s, x in enumerate([(M, K), (K, N), (M, N)])]
GIVEN = {"alpha": 0.5 - 2j, "beta": -1.5}
X, Y = (random_matrix(60, 60, seed=seed) for seed in (1, 2))


@pytest.fixture(scope="module")
def three():
    with start_workers(3, resources={"UNIT": 1}) as client:
        yield client


@sample(
    ("workers", "threads", "tilings"),
    [
        (1, 2, ("even", "ragged")),
        (2, 1, ("ragged", "k alone")),
        (3, 2, ("k alone", "even")),
        (4, 1, ("even", "ragged")),
    ],
    [(3, 2, ("k alone", "even"))],
)
def test_every_number_of_workers(workers, threads, tilings):
    with (
        start_workers(workers, threads_per_worker=threads),
        dask.config.set({"twom-dist.panel-bytes": "3 kB"}),
    ):
        for tiling in tilings:
            m, n, k = TILINGS[tiling]
            chunks = ((m, k), (k, n), (m, n))
            arrays = [da.from_array(x, y) for x, y in zip(ABC, chunks, strict=True)]
            found = td.gemm(*arrays, **GIVEN)
            assert same_bits(found.compute(), td.gemm(*ABC, **GIVEN))
        x, y = (da.from_array(x[:, :45], chunks=16) for x in (X, Y))
        assert same_bits(td.herk(x).compute(), td.herk(X[:, :45]))
        assert same_bits(td.syr2k(x, y).compute(), td.syr2k(X[:, :45], Y[:, :45]))


def test_other_byte_orders_may_become_native_on_the_way(three):
    """NumPy pickles a slice that is not contiguous in native order."""
    x = random_matrix(6, 6, "float64", 1.0, 1)
    swapped = da.from_array(x.astype(">f8"), chunks=3)
    for scheduler in ("sync", three):
        found = td.gemm(swapped, swapped).compute(scheduler=scheduler)
        assert (found == td.gemm(x, x)).all()


def test_restrictions_and_resources_of_the_user_are_kept(three):
    x, y = (da.from_array(each, chunks=20) for each in (X, Y))
    only = sorted(three.nthreads())[1]
    for options in (
        {"workers": [only], "allow_other_workers": False},
        {"resources": {"UNIT": 1}},
    ):
        product = three.persist(td.gemm(x, y), **options)
        assert same_bits(product.compute(), td.gemm(X, Y))
        holders = {w for where in three.who_has(product).values() for w in where}
        assert "workers" not in options or holders == {only}
        del product
    again = td.gemm(td.gemm(x, y), y) + 1
    assert (again.compute() == td.gemm(td.gemm(X, Y), Y) + 1).all()


@lru_cache
def find_matrix():
    """Return the array of the user, which is the same in all of this process."""
    return random_matrix(9, 9, seed=1)


def test_a_worker_in_the_clients_process_sees_a_matrix_that_was_refilled():
    """The block that it holds is the array of the user."""
    x, y = find_matrix(), random_matrix(9, 9, seed=2)
    with start_workers(1):
        a = da.from_delayed(dask.delayed(find_matrix)(), x.shape, x.dtype).persist()
        b = da.from_array(y, chunks=5).persist()
        before = td.gemm(a, b).compute()
        x *= -1  # which leaves the exponents as they are
        after = td.gemm(a, b).compute()
    assert (before == td.gemm(-x, y)).all()
    assert (after == td.gemm(x, y)).all()


def test_no_key_stands_for_two_tasks(three, files, caplog):
    """What a pass has found is held under keys that no task has had."""
    with caplog.at_level("WARNING", "distributed.scheduler"):
        multiply("C.npy", client=three, equilibrate=True)
        td.explain(td.gemm, *(da.from_array(x, chunks=20) for x in files[:2]))
    assert "run_spec" not in caplog.text


@pytest.fixture(scope="module")
def mortal():
    """Two processes to kill, which are started again."""
    options = {"processes": True, "threads_per_worker": 3, "memory_limit": "2 GiB"}
    with start_workers(2, **options) as client:
        yield client


@pytest.fixture
def stack():
    with ExitStack() as opened:
        yield opened


def hold_last(x, gate):
    """Have the last tile wait for the gate."""
    last = x.blocks[-1:, -1:].map_blocks(partial(block_behind, gate), meta=x._meta)
    m, n = (sum(sizes[:-1]) for sizes in x.chunks)
    if m == 0:
        return da.concatenate([x[:, :n], last], axis=1)
    return da.block([[x[:m, :n], x[:m, n:]], [x[m:, :n], last]])


def among_products(folder, gate, stack):
    """Twenty of 25 tiles are there: the last row waits."""
    a, b = drawn(80, 5, 5), drawn(81, 5, 5)
    given = (x.compute(scheduler="sync") for x in (a, b))
    lazy = td.gemm(hold_last(a, gate), b, num_moduli=16)
    return lazy, td.gemm(*given, num_moduli=16), "twom-product", 20


def among_sums(folder, gate, stack):
    """The last part waits for its last tile; the others are done."""
    # Integers, whose rows nobody has to see before any of them is multiplied.
    a = (100 * drawn(80, 1, 12, 64).real).astype(np.int16)
    expected = td.integers.syrk(a.compute(scheduler="sync"))
    return td.integers.syrk(hold_last(a, gate)), expected, "twom-reduce", 1


def among_reads(folder, gate, stack):
    """Until the gate opens no product has all that it needs."""
    a, b = (random_matrix(60, 75, seed=seed) for seed in (1, 2))
    zarr.create_array(folder / "A.zarr", data=a, chunks=(20, 25))
    with h5py.File(folder / "B.h5", "w") as file:
        file["B"] = b
    file = stack.enter_context(h5py.File(folder / "B.h5"))
    y = da.from_array(file["B"], chunks=(20, 25))
    last = y.blocks[2:].map_blocks(partial(block_behind, gate), meta=y._meta)
    y = da.concatenate([y.blocks[:2], last])
    with dask.config.set({"twom-dist.inputs": "stream"}):
        lazy = td.her2k(da.from_zarr(folder / "A.zarr"), y)
    return lazy, td.her2k(a, b), "twom", 1


@pytest.mark.parametrize("make", [among_products, among_sums, among_reads])
def test_a_worker_that_dies_costs_time_and_no_bits(mortal, tmp_path, stack, make):
    gate = tmp_path / "gate"
    lazy, expected, stage, count = make(tmp_path, gate, stack)
    tasks = mortal.cluster.scheduler.tasks
    pids = mortal.run(os.getpid)
    product = mortal.persist(lazy)

    def holders():
        held = [s for k, s in [*tasks.items()] if k[0].startswith(stage) and s.who_has]
        return [next(iter(s.who_has)).address for s in held]

    wait_until(lambda: len(holders()) >= count)
    os.kill(pids[holders()[0]], signal.SIGKILL)
    gate.touch()
    wait(product)
    if make is among_reads:
        # No task made a chunk for others.
        assert {key[0].split("-")[0] for key in tasks} == {"twom"}
    assert same_bits(product.compute(), expected)
    wait_until(lambda: len(mortal.nthreads()) == 2)


def slowly(tile):
    time.sleep(0.1)
    return float(tile[0, 0].real)


def test_products_and_tasks_of_a_user_share_inputs_and_copies(caplog):
    """A worker that is asked to drop what a task of its own takes ends itself."""
    caplog.set_level(logging.INFO, "distributed")
    with start_workers(2, threads_per_worker=2) as client:
        a, b = client.persist([drawn(seed, 5, 5) for seed in (20, 21)])
        wait([a, b])
        # Copies go with the product, and those of the user stay.
        client.replicate(a)
        wait(client.persist(td.gemm(a, b)))
        wait_until(lambda: {len(x) for x in client.who_has(b).values()} == {1})
        assert {len(x) for x in client.who_has(a).values()} == {2}
        x, y = a.compute(), b.compute()
        tiles, workers = list(a.dask.layers[a.name].values()), addresses(client)
        for turn in range(3):
            # Nobody waits for the first one.
            client.persist(td.gemm(a, b, alpha=1 + turn))
            time.sleep(0.02 * turn)
            lazy = td.gemm(b, a), td.gemm(a, b, alpha=10 + turn)
            second, third = client.persist(lazy)
            asked = [
                client.submit(slowly, tile, workers=[workers[n % 2]], pure=False)
                for n, tile in enumerate(tiles[:6])
            ]
            wait([second, third, *asked])
            assert all(x.status == "finished" for x in asked)
            assert same_bits(second.compute(), td.gemm(y, x))
            assert same_bits(third.compute(), td.gemm(x, y, alpha=10 + turn))
        left = addresses(client)
    said = [record.getMessage() for record in caplog.records]
    assert not any("Plugin failed" in x or "Cannot remove" in x for x in said)
    assert len(left) == 2, said
