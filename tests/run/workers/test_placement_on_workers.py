"""Placement on a cluster: the bytes that move, and a worker that dies."""

import os
import signal
from collections import Counter, defaultdict
from contextlib import contextmanager
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, wait

import twom_dist as td
from tests.support.jobs import IN_PROCESS, forked_workers, wait_until
from twom_dist.kernels import get_engine
from twom_dist.tiles.placement.grids import WorkerGrid, summa_bytes, worker_grids
from twom_dist.tiles.placement.triangle import held_rows, triangle_map

WORKERS = 4
TILE, TILES = 40, 6
TILE_BYTES = TILE * TILE * 16
# Exponents of a tile are smaller by far, tiles of A and B larger.
SMALLEST_COUNTED = 10_000


@contextmanager
def start_workers(count, **options):
    """Start workers without the memory manager, which may drop what is needed later.

    Of the replicas of a tile it keeps one for each worker with a task that waits for
    it, and for each task that has no worker yet, but does not know which replica that
    is.

    The workers share this process, which starts them in no time, and talk over TCP.
    """
    defaults = {
        **{"threads_per_worker": 1, "memory_limit": 0},
        **IN_PROCESS,
    }
    with (
        dask.config.set({"distributed.scheduler.active-memory-manager.start": False}),
        forked_workers(),
        LocalCluster(n_workers=count, **defaults | options) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="module")
def cluster():
    with start_workers(WORKERS) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        client.wait_for_workers(WORKERS, timeout=60)
        client.run(get_engine, "cpu")
        client.run(forget_transfers)
        yield client


def forget_transfers(dask_worker):
    dask_worker.transfer_incoming_log.clear()


def read_transfers(dask_worker):
    """Keys that have arrived here, with their bytes."""
    log = dask_worker.transfer_incoming_log
    return [item for entry in log for item in entry["keys"].items()]


def moved_bytes(client):
    """Bytes of tiles that have moved between workers, from the incoming side."""
    arrived = [item for log in client.run(read_transfers).values() for item in log]
    return sum(b for _, b in arrived if b > SMALLEST_COUNTED)


def moved_tiles(client):
    """Tiles that have moved between workers."""
    return moved_bytes(client) / TILE_BYTES


def random_block(seed, block_info=None):
    info = block_info[None]
    rng = np.random.default_rng([seed, *info["chunk-location"]])
    return rng.random(info["chunk-shape"]) + 1j * rng.random(info["chunk-shape"])


def random_array(seed, rows=TILES, columns=None):
    """Tiles that workers make, each the same wherever it is made."""
    return da.map_blocks(
        random_block,
        seed,
        chunks=((TILE,) * rows, (TILE,) * (columns or rows)),
        dtype=complex,
        meta=np.empty((0, 0), complex),
    )


def needed_tiles(client, product, a, b):
    """Tiles of A and B that the workers with tiles of C need: (worker, key)."""
    needed = set()
    for key, (worker,) in client.who_has(product).items():
        _, i, j = key
        for step in range(a.numblocks[1]):
            needed |= {(worker, (a.name, i, step)), (worker, (b.name, step, j))}
    return needed


def tiles_missing(client, product, held, a, b):
    """Count the tiles of A and B that workers need and do not hold."""
    needed = needed_tiles(client, product, a, b)
    return sum(worker not in held.get(key, ()) for worker, key in needed)


def test_traffic_is_that_of_summa_where_inputs_are_part_of_the_graph(client, cluster):
    product = client.persist(td.gemm(random_array(10), random_array(11), num_moduli=16))
    wait(product)
    tiles = TILES * TILES
    summa = summa_bytes(WorkerGrid(2, 2), TILES, TILES, tiles, tiles)
    assert summa <= moved_tiles(client) <= 1.05 * summa
    assert_loose_and_balanced(cluster, product)


def assert_loose_and_balanced(cluster, product):
    states = [s for k, s in cluster.scheduler.tasks.items() if k[0] == product.name]
    assert len(states) == TILES * TILES
    assert all(s.loose_restrictions for s in states)
    assert all(len(s.worker_restrictions) == 1 for s in states)
    placed = Counter(worker for s in states for worker in s.worker_restrictions)
    assert list(placed.values()) == [TILES * TILES // WORKERS] * WORKERS
    where = {s.key[1:]: next(iter(s.worker_restrictions)) for s in states}
    assert all(where[i, j] == where[i % 2, j % 2] for i, j in where)


def tree_of_tasks(seed, tiles):
    """A square matrix of tiles of 64 KiB that take several tasks each."""
    rng = da.random.default_rng(seed)
    X, Y = (rng.random((64 * tiles, 64 * tiles), chunks=64) for _ in range(2))
    return X + 1j * Y


def test_traffic_is_that_of_summa_where_tiles_are_made_by_trees_of_tasks(client):
    # By default the products of the samples move besides, from each of 8 steps along k
    # 128 x 128 entries of 10 bytes, three quarters of them: 0.94 MiB beside 8.
    for options, tiles, most in (({"num_moduli": 16}, 6, 1.1), ({}, 8, 1.2)):
        whole = tiles**2 * 64 << 10
        summa = summa_bytes(WorkerGrid(2, 2), tiles, tiles, whole, whole)
        assert summa == 2 * whole
        client.run(forget_transfers)
        pair = (tree_of_tasks(seed + tiles, tiles) for seed in (10, 20))
        product = client.persist(td.gemm(*pair, **options))
        wait(product)
        assert summa <= moved_bytes(client) <= most * summa


def test_an_update_moves_no_more_where_tiles_are_made_by_trees_of_tasks(client):
    update = client.persist(td.herk(tree_of_tasks(3, 6), num_moduli=16))
    wait(update)
    assert moved_bytes(client) <= 1.1 * triangle_map(6, WORKERS).copies * (6 * 64 << 10)


def test_traffic_is_the_least_where_inputs_lie_on_workers_already(client):
    moved = least = 0
    for seed in (30, 40):
        A, B = client.persist([random_array(seed), random_array(seed + 1)])
        wait([A, B])
        held = {**client.who_has(A), **client.who_has(B)}
        client.run(forget_transfers)
        product = client.persist(td.gemm(A, B, num_moduli=16))
        wait(product)
        moved += moved_tiles(client)
        least += tiles_missing(client, product, held, A, B)
        del A, B, product
    assert least <= moved <= 1.05 * least


def test_results_are_the_bits_of_numpy(client):
    A, B = random_array(70, 5), random_array(71, 5)
    expected = td.gemm(A.compute(), B.compute())
    found = td.gemm(A, B).compute()
    assert found.tobytes() == expected.tobytes()


def block_behind(gate, block):
    """Hand a block on when there is a file."""
    wait_until(gate.exists)
    return block


def finished(cluster, name, tiles):
    """Tiles of a product that are in memory, and the workers that hold them."""
    states = cluster.scheduler.tasks
    found = [states.get((name, i, j)) for i in range(tiles) for j in range(tiles)]
    return [next(iter(s.who_has)).address for s in found if s and s.who_has]


def test_a_worker_killed_in_mid_product_costs_time_and_no_bits(tmp_path):
    A, B, gate = random_array(80, 5), random_array(81, 5), tmp_path / "gate"
    arrays = (x.compute(scheduler="sync") for x in (A, B))
    expected = td.gemm(*arrays, num_moduli=16)
    held = A.blocks[4:, 4:].map_blocks(partial(block_behind, gate), meta=A._meta)
    # The last row of tiles waits; other threads compute the rest meanwhile.
    A = da.block([[A[:-TILE, :-TILE], A[:-TILE, -TILE:]], [A[-TILE:, :-TILE], held]])
    with (
        start_workers(2, processes=True, threads_per_worker=2) as cluster,
        Client(cluster) as client,
    ):
        pids = client.run(os.getpid)
        product = client.persist(td.gemm(A, B, num_moduli=16))
        wait_until(lambda: len(finished(cluster, product.name, 5)) == 20)
        os.kill(pids[finished(cluster, product.name, 5)[0]], signal.SIGKILL)
        gate.touch()
        found = product.compute()  # the test's own time limit bounds the wait
    assert found.tobytes() == expected.tobytes()


# --- triangles --------------------------------------------------------------------

ROWS, STEPS, SIX = 12, 5, 6


@pytest.fixture(scope="module")
def six():
    """Six workers, and a client."""
    with start_workers(SIX) as cluster, Client(cluster) as client:
        client.wait_for_workers(SIX, timeout=60)
        client.run(get_engine, "cpu")
        yield cluster, client


def placed_tasks(cluster, name):
    """Worker of each placed task of a name, by the rest of its key."""
    states = [(k[1:], s) for k, s in cluster.scheduler.tasks.items() if k[0] == name]
    return {index: w for index, s in states for w in s.worker_restrictions or ()}


def product_tasks(cluster, update):
    name = update.name.replace("update", "product")
    return placed_tasks(cluster, name)


def cyclic_copies(rows, workers):
    """Rows that move on the best of the cyclic grids."""
    cells = [(i, j) for i in range(rows) for j in range(i + 1)]
    grids = [{c: g.slot(*c) for c in cells} for g in worker_grids(workers)]
    return min(sum(map(len, held_rows(grid).values())) for grid in grids) - rows


def test_a_product_leaves_out_workers_that_would_not_help(six):
    cluster, client = six
    A = random_array(92, 5)
    C = client.persist(td.gemm(A, A, num_moduli=16))
    wait(C)
    tiles = Counter(placed_tasks(cluster, C.name).values())
    assert sorted(tiles.values()) == [5] * 5  # of 25; 2 x 3 workers have up to 6
    x = A.compute(scheduler="sync")
    assert (C.compute() == td.gemm(x, x, num_moduli=16)).all()


def test_an_update_moves_what_its_triangle_says_and_less_than_a_grid(six):
    cluster, client = six
    client.run(forget_transfers)
    A = random_array(90, ROWS, STEPS)
    update = client.persist(td.herk(A, num_moduli=16))
    wait(update)
    needed = defaultdict(set)
    for cell, worker in product_tasks(cluster, update).items():
        needed[worker].update(cell)
    triangle = triangle_map(ROWS, SIX)
    held = [triangle.rows_of(slot) for slot in range(SIX)]
    assert sorted(map(sorted, needed.values())) == sorted(map(sorted, held))
    starts = Counter(placed_tasks(cluster, A.name).values())
    assert max(starts.values()) - min(starts.values()) <= 2
    total = 0
    for worker, log in client.run(read_transfers).items():
        moved = sum(b for _, b in log if b > SMALLEST_COUNTED) / TILE_BYTES
        assert moved <= 1.1 * (len(needed[worker]) * STEPS - starts[worker])
        total += moved
    assert total <= 1.05 * triangle.copies * STEPS
    assert total < 0.8 * cyclic_copies(ROWS, SIX) * STEPS


def test_an_update_goes_where_its_inputs_lie(six):
    cluster, client = six
    A = client.persist(random_array(91, ROWS, STEPS))
    wait(A)
    held = client.who_has(A)
    client.run(forget_transfers)
    update = client.persist(td.herk(A, uplo="upper", num_moduli=16))
    wait(update)
    needed = {
        (worker, (A.name, row, step))
        for cell, worker in product_tasks(cluster, update).items()
        for row in cell
        for step in range(STEPS)
    }
    missing = sum(worker not in held[key] for worker, key in needed)
    assert missing <= moved_tiles(client) <= 1.05 * missing
    assert missing < len(needed) * (1 - 1 / SIX)


def test_updates_of_updates_are_all_placed(six):
    cluster, client = six
    first = td.herk(random_array(93, 4), uplo="lower")
    second = client.persist(td.herk(first))
    wait(second)
    for update in (first, second):
        triangle = triangle_map(4, SIX)
        workers = defaultdict(set)
        for cell, worker in product_tasks(cluster, update).items():
            workers[triangle.slot(*cell)].add(worker)
        assert sorted(workers) == sorted(set(triangle.slots.values()))
        assert [len(of_slot) for of_slot in workers.values()] == [1] * len(workers)
    scaled = placed_tasks(cluster, second.name.replace("update", "largest"))
    assert set(scaled) == {("left", i, step) for i in range(4) for step in range(4)}


def product_names(cluster):
    keys = cluster.scheduler.tasks
    return {key[0] for key in keys if str(key[0]).startswith("twom-product")}


def test_part_of_a_triangle_is_placed_too(six):
    cluster, client = six
    before = product_names(cluster)
    # The product tasks of three rows and two columns of tiles: five, and no triangle.
    part = client.persist(
        td.herk(random_array(92, ROWS, STEPS))[: 3 * TILE, : 2 * TILE]
    )
    wait(part)
    (name,) = product_names(cluster) - before
    expected = {(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)}
    assert set(placed_tasks(cluster, name)) == expected
