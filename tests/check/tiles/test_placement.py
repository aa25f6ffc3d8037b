"""Placement: workers that go, and copies of tiles; tests/run/workers counts bytes."""

from collections import Counter
from itertools import product as product_of
from types import SimpleNamespace

import dask.array as da

import twom_dist as td
from tests.support.cases import cases
from tests.support.schedulers import FakeScheduler

INDICES = [*product_of(range(4), repeat=2)]


def product_on(workers):
    """Make a product, and a scheduler that has not placed it yet."""
    product = td.gemm(*(da.ones((4, 4), chunks=1) for _ in range(2)))
    return product, FakeScheduler(product, workers)


def test_a_product_that_somebody_has_placed_is_left_alone():
    product, scheduler = product_on(4)
    scheduler.tasks[product.name, 3, 3].worker_restrictions = {"b"}
    scheduler.place()
    assert scheduler.homes(product.name) == {(3, 3): "b"}


def test_only_the_tasks_of_a_worker_that_goes_lose_their_place():
    product, scheduler = product_on(4)
    scheduler.place()
    before = scheduler.homes(product.name)
    placed = [x for x in scheduler.tasks.values() if x.worker_restrictions]
    assert all(task.loose_restrictions for task in placed)
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
