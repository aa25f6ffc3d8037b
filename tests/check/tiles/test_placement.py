"""Placement: grids of workers, the tasks that follow a tile, and copies of tiles."""

from collections import Counter, defaultdict
from itertools import product as product_of
from types import SimpleNamespace

import dask.array as da

import twom_dist as td
from tests.support.cases import cases
from tests.support.schedulers import FakeScheduler

INDICES = [*product_of(range(4), repeat=2)]


def starts(scheduler, *arrays):
    """Count the tiles that begin on each worker."""
    return Counter(w for x in arrays for w in scheduler.homes(x.name).values())


def product_on(workers, m=4, **held):
    """Make A, B and their product, and a scheduler that has not placed it yet."""
    A, B = da.ones((m, 4), chunks=1), da.zeros((4, m), chunks=1)
    product = td.gemm(A, B)
    return A, B, product, FakeScheduler(product, workers, **held)


def test_tiles_begin_evenly_on_the_workers_that_multiply_them():
    A, B, product, scheduler = product_on(4, 6)
    scheduler.place()
    cells = scheduler.homes(product.name)
    assert len(cells) == 36
    assert all(w == cells[i % 2, j % 2] for (i, j), w in cells.items())
    assert Counter(cells.values()) == dict.fromkeys("abcd", 9)
    for x, place in ((A, 0), (B, 1)):
        for index, worker in scheduler.homes(x.name).items():
            assert worker in {w for c, w in cells.items() if c[place] == index[place]}
    assert starts(scheduler, A, B) == dict.fromkeys("abcd", 12)
    placed = [x for x in scheduler.tasks.values() if x.worker_restrictions]
    assert all(task.loose_restrictions for task in placed)


@cases("uplo", ["full", "lower"])
@cases(("rows", "steps"), [(12, 5), (6, 1), (7, 1)])
def test_rows_of_an_update_begin_evenly_where_its_triangle_needs_them(
    rows, steps, uplo
):
    A = da.ones((rows, steps), chunks=1)
    update = td.herk(A, uplo=uplo, num_moduli=4)
    scheduler, needed = FakeScheduler(update, 6), defaultdict(set)
    scheduler.place()
    name = update.name.replace("update", "product")
    for cell, worker in scheduler.homes(name).items():
        needed[worker].update(cell)
    plan = td.plan(td.herk, (rows, steps), chunks=1, n_workers=6)
    assert max(map(len, needed.values())) == plan.held_fraction * rows
    homes = scheduler.homes(A.name)
    assert all(i in needed[worker] for (i, _), worker in homes.items())
    assert len(homes) == rows * steps
    counts = starts(scheduler, A)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_products_go_where_their_inputs_lie():
    A, B = da.ones((4, 4), chunks=1), da.zeros((4, 4), chunks=1)
    product = td.gemm(A, B, num_moduli=4)
    # On a grid that is turned: slots 0, 1, 2, 3 are workers d, c, b, a.
    held = {
        (x.name, i, j): "dcba"[i % 2 * 2 + j % 2] for x in (A, B) for i, j in INDICES
    }
    scheduler = FakeScheduler(product, 4, held)
    scheduler.place()
    cells = scheduler.homes(product.name)
    assert [cells[c] for c in ((0, 0), (0, 1), (1, 0), (1, 1))] == [*"dcba"]
    assert not starts(scheduler, A, B)  # they lie somewhere already


def test_what_only_one_worker_needs_follows_the_tile_that_needs_it():
    """Even far behind a tile, and not what several need, or another product."""
    shared, other = da.ones((1, 1), chunks=1), da.full((4, 4), 2.0, chunks=1)
    both = td.gemm(other, other, num_moduli=3)
    A = (((da.ones((4, 4), chunks=1) + 1) * 3) * shared) + both
    B = da.zeros((4, 4), chunks=1)
    product = td.gemm(A, B, num_moduli=4)
    scheduler = FakeScheduler(product, 4)
    token = product.name.rpartition("-")[2]
    scheduler.place(key for key in scheduler.tasks if key[0].endswith(token))
    alone = 0
    for task in scheduler.tasks.values():
        follows = {frozenset(x.worker_restrictions) for x in task.dependents}
        if task.key[0] in (A.name, B.name) or task.key[0].startswith("twom-"):
            continue
        expected = next(iter(follows)) if len(follows) == 1 else set()
        assert task.worker_restrictions == expected
        alone += len(expected)
    assert alone >= 32
    assert not scheduler.homes(both.name)


def test_a_product_that_somebody_has_placed_is_left_alone():
    _, _, product, scheduler = product_on(4)
    scheduler.tasks[product.name, 3, 3].worker_restrictions = {"b"}
    scheduler.place()
    assert scheduler.homes(product.name) == {(3, 3): "b"}


def test_only_the_tasks_of_a_worker_that_goes_lose_their_place():
    _, _, product, scheduler = product_on(4)
    scheduler.place()
    before = scheduler.homes(product.name)
    forgotten = scheduler.tasks.pop((product.name, 1, 1))
    scheduler.plugin.remove_worker(scheduler, "a")
    left = {c: w for c, w in before.items() if w != "a" and c != (1, 1)}
    assert len(left) == 11
    assert scheduler.homes(product.name) == left
    assert forgotten.worker_restrictions == {before[1, 1]}
    # Nor is a task sent to a reader that has gone.
    tiles = da.ones(2, chunks=1)
    scheduler = FakeScheduler(tiles, 2)
    readers = {(tiles.name, 0): "a", (tiles.name, 1): "gone"}
    scheduler.place([], annotations={"twom-reader": readers})
    assert scheduler.homes(tiles.name) == {(0,): "a"}


def test_what_is_placed_is_not_stolen():
    *_, scheduler = product_on(4)
    scheduler.place()
    kept, plugin = [], scheduler.plugin
    stealing = SimpleNamespace(remove_key_from_stealable=kept.append)
    scheduler.extensions["stealing"] = stealing
    for key in scheduler.tasks:
        plugin.transition(key, "waiting", "processing")
    assert {task.key for task in kept} == plugin.placed


# --- copies of tiles ------------------------------------------------------------------


def test_copies_go_with_the_last_product_that_takes_them():
    A, B = da.ones((4, 4), chunks=1), da.zeros((4, 4), chunks=1)
    products = [td.gemm(A, B, alpha=x, num_moduli=4) for x in (1, 2)]
    held = {(x.name, *i): "abcd"[sum(i) % 4] for x in (A, B) for i in INDICES}
    scheduler = FakeScheduler(products[0] + products[1], 4, held)
    tiles = [scheduler.tasks[key] for key in held]
    cells = [(x.name, *i) for x in products for i in INDICES]
    for first in (0, 0, 16):
        for cell in cells[first : first + 16]:
            # The first graph comes twice, forgotten meanwhile.
            scheduler.tasks[cell].worker_restrictions = set()
        scheduler.place(cells[first : first + 16])
        for tile in tiles:  # copies arrive
            tile.who_has = [*scheduler.workers.values()]
    needed = {
        cell: {
            (worker, x.key)
            for worker in scheduler.tasks[cell].worker_restrictions
            for x in scheduler.tasks[cell].dependencies
            if x.key in held and worker != held[x.key]
        }
        for cell in cells
    }
    left = Counter(copy for copies in needed.values() for copy in copies)
    for cell in cells:
        scheduler.removed.clear()
        scheduler.finish([cell])
        before, left = left, left - Counter(needed[cell])
        # Each copy once, of all that have come from elsewhere.
        assert sorted(scheduler.removed) == sorted(before.keys() - left.keys())


@cases(
    ("holders", "taken_on", "is_dropped"),
    [("a", "", False), ("b", "", False), ("ab", "b", True), ("ab", "a", False)],
)
def test_a_copy_is_dropped_but_never_the_only_one(holders, taken_on, is_dropped):
    """Nor one that a task there takes: its worker would end itself."""
    A, B = da.ones((2, 1), chunks=1), da.zeros((1, 1), chunks=1)
    product = td.gemm(A, B, num_moduli=4)
    scheduler = FakeScheduler(product, 2, {(B.name, 0, 0): "b"})
    scheduler.place()
    tile = scheduler.tasks[B.name, 0, 0]
    tile.who_has = [scheduler.workers[w] for w in holders]
    tile.waiters = [
        SimpleNamespace(processing_on=scheduler.workers[w]) for w in taken_on
    ]
    cells = scheduler.homes(product.name)
    scheduler.finish((product.name, *c) for c, worker in cells.items() if worker == "a")
    assert scheduler.removed == [("a", tile.key)] * is_dropped
