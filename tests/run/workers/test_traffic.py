"""Lazy products on workers: no more moves than is planned, and the bits of NumPy."""

from collections import defaultdict

import dask.array as da
import numpy as np
import pytest
from distributed import wait

import twom_dist as td
from tests.support import workers
from tests.support.expect import same_bits

TILE, TILES, WORKERS = 40, 6, 4
# Of 128 KiB with 16 moduli: what is smaller and moves is not counted.
LARGE = 64
GIVEN = {"num_moduli": 16}


@pytest.fixture(scope="module")
def four():
    with workers.start_workers(WORKERS) as client:
        yield client


@pytest.fixture(scope="module")
def six():
    with workers.start_workers(6) as client:
        yield client


def tree_of_tasks(seed, tiles):
    """Make a square matrix of tiles of 64 KiB that take several tasks each."""
    rng = da.random.default_rng(seed)
    x, y = (rng.random((64 * tiles, 64 * tiles), chunks=64) for _ in range(2))
    return x + 1j * y


def spread(seed, tiles):
    """Make a pair whose columns and rows have magnitudes that cancel."""
    factors = np.ldexp(1.0, np.arange(tiles * TILE) % 21)
    d = da.from_array(factors, chunks=TILE)
    a, b = (workers.drawn(x, tiles, tiles) for x in (seed, seed + 1))
    return a * d, b / d[:, np.newaxis]


def pair(*shape):
    return [workers.drawn(seed, *shape) for seed in (10, 11)]


def tall(*shape):
    return [
        workers.drawn(10 + i, *shape[i : i + 2], LARGE) for i in range(len(shape) - 1)
    ]


# What is multiplied, and how many times the planned bytes may move. Where the data
# decide the moduli, samples move besides: from each of 8 steps along k three quarters
# of 128 x 128 entries of 10 bytes.
PRODUCTS = {
    "drawn": (td.gemm, lambda: pair(TILES, TILES), GIVEN, 1.05),
    "trees": (td.gemm, lambda: [tree_of_tasks(x, 6) for x in (16, 26)], GIVEN, 1.1),
    "default": (td.gemm, lambda: [tree_of_tasks(x, 8) for x in (18, 28)], {}, 1.2),
    "update": (td.herk, lambda: [tree_of_tasks(3, 6)], GIVEN, 1.1),
    "default update": (td.herk, lambda: [tree_of_tasks(3, 8)], {}, 1.2),
    "scaled": (td.gemm, lambda: spread(10, 6), {"equilibrate": True, **GIVEN}, 1.05),
    # All workers share k.
    "tall herk": (td.herk, lambda: tall(1, 24), GIVEN, 1.1),
    "tall syrk": (td.syrk, lambda: tall(2, 16), GIVEN, 1.1),
    "tall her2k": (td.her2k, lambda: pair(2, 12, LARGE), GIVEN, 1.1),
    "one tile": (td.gemm, lambda: tall(1, 24, 1), GIVEN, 1.1),
    "one row": (td.gemm, lambda: tall(1, 12, 3), GIVEN, 1.1),
    "square": (td.gemm, lambda: tall(4, 2, 4), GIVEN, 1.1),
    "uneven": (td.gemm, lambda: tall(2, 13, 2), GIVEN, 1.1),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_no_more_moves_than_is_planned(four, name):
    routine, make, options, most = PRODUCTS[name]
    given = make()
    plan = td.plan(routine, *given, **options)
    assert plan.idle_workers == 0
    four.run(workers.forget_transfers)
    product = four.persist(routine(*given, **options))
    wait(product)
    assert workers.moved_bytes(four) <= most * plan.bytes_moved
    whole = [x.compute(scheduler="sync") for x in given]
    assert same_bits(product.compute(), routine(*whole, **options))


def needed_tiles(client, product, a, b):
    """Tiles of A and B that the workers with tiles of C need: (worker, key)."""
    needed = set()
    for key, (worker,) in client.who_has(product).items():
        _, i, j = key
        for step in range(a.numblocks[1]):
            needed |= {(worker, (a.name, i, step)), (worker, (b.name, step, j))}
    return needed


@pytest.mark.parametrize("options", [GIVEN, {}])
def test_inputs_that_lie_on_the_workers_move_once(four, options):
    """By default, when all is looked at twice, no more than with given moduli."""
    # Beside tiles of this size a look at pairs hardly counts.
    tile = 40 if options else 200
    a, b = four.persist([workers.drawn(x, 6, 6, tile) for x in (30, 31)])
    wait([a, b])
    held = four.who_has()
    four.run(workers.forget_transfers)
    product = four.persist(td.gemm(a, b, **options))
    wait(product)
    found = needed_tiles(four, product, a, b)
    missing = sum(worker not in held.get(key, ()) for worker, key in found)
    moved = workers.moved_bytes(four) / (tile * tile * 16)
    assert missing <= moved <= 1.05 * missing
    assert same_bits(product.compute(), td.gemm(a.compute(), b.compute(), **options))


ROWS, STEPS = 12, 5


def rows_by_worker(client, update):
    """Rows of tiles that each worker needs for its products of an update."""
    needed, name = defaultdict(set), update.name.replace("update", "product")
    for key, state in client.cluster.scheduler.tasks.items():
        for worker in state.worker_restrictions or () if key[0] == name else ():
            needed[worker].update(key[1:])
    return needed


def test_an_update_moves_what_its_triangle_says(six):
    a = workers.drawn(90, ROWS, STEPS)
    plan = td.plan(td.herk, a, **GIVEN)
    six.run(workers.forget_transfers)
    update = six.persist(td.herk(a, **GIVEN))
    wait(update)
    rows = rows_by_worker(six, update)
    for worker, log in six.run(workers.read_transfers).items():
        moved = sum(b for _, b in log if b > 10_000) / (TILE * TILE * 16)
        assert moved <= 1.1 * len(rows[worker]) * STEPS
    assert workers.moved_bytes(six) <= 1.05 * plan.bytes_moved
    # Where tiles of A lie on the workers already, it goes there.
    a = six.persist(workers.drawn(91, ROWS, STEPS))
    wait(a)
    held = six.who_has(a)
    six.run(workers.forget_transfers)
    update = six.persist(td.herk(a, uplo="upper", **GIVEN))
    wait(update)
    needed = {
        (worker, (a.name, row, step))
        for worker, rows in rows_by_worker(six, update).items()
        for row in rows
        for step in range(STEPS)
    }
    missing = sum(worker not in held[key] for worker, key in needed)
    moved = workers.moved_bytes(six) / (TILE * TILE * 16)
    assert missing <= moved <= 1.05 * missing
    assert missing < len(needed) * (1 - 1 / 6)
