"""Placement: workers that go, copies, triangles; tests/run/workers counts bytes."""

from collections import Counter, defaultdict
from itertools import product as product_of
from types import SimpleNamespace

import dask.array as da
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.schedulers import FakeScheduler
from tests.support.shares import list_needed
from tests.support.splits import in_sweeps, split_along_k

INDICES = [*product_of(range(4), repeat=2)]


def product_on(workers, **options):
    """Make a product, and a scheduler that has not placed it yet."""
    product = td.gemm(*(da.ones((4, 4), chunks=1) for _ in range(2)))
    return product, FakeScheduler(product, workers, **options)


def test_a_product_that_somebody_has_placed_is_left_alone():
    product, scheduler = product_on(4)
    scheduler.tasks[product.name, 3, 3].worker_restrictions = {"b"}
    scheduler.place()
    assert scheduler.homes(product.name) == {(3, 3): "b"}


@cases(
    ("kind", "own", "is_loose", "allowed"),
    [
        ("worker_restrictions", {"b", "c", "late"}, False, "bc"),
        ("host_restrictions", {"1"}, False, "bd"),
        # Nobody who is preferred runs.
        ("worker_restrictions", {"late"}, True, "abcd"),
        # The only one has all without this, and those who are not there are waited for.
        ("worker_restrictions", {"b"}, False, None),
        ("worker_restrictions", {"late"}, False, None),
        ("resource_restrictions", {"GPU": 1}, False, None),
    ],
)
def test_a_product_is_placed_on_the_workers_that_are_allowed(
    kind, own, is_loose, allowed
):
    product, scheduler = product_on(4, hosts=2)
    for task in scheduler.tasks.values():
        setattr(task, kind, own)
        task.loose_restrictions = is_loose
    scheduler.place()
    if not allowed:
        assert not scheduler.plugin.placed
        return
    homes = Counter(scheduler.homes(product.name).values())
    assert homes == dict.fromkeys(allowed, 16 // len(allowed))
    for key, task in scheduler.tasks.items():
        if key in scheduler.plugin.placed:
            assert task.worker_restrictions <= {*allowed}
            assert (task.host_restrictions, task.loose_restrictions) == (None, False)
        else:  # a task that takes from all, and is small
            assert (getattr(task, kind), task.loose_restrictions) == (own, is_loose)


@cases("own", [None, {"b", "c", "late"}])
def test_a_task_whose_worker_has_gone_may_run_wherever_its_user_lets_it(own):
    product, scheduler = product_on(4)
    for task in scheduler.tasks.values():
        task.worker_restrictions = own and {*own}
    scheduler.place()
    before, key = scheduler.homes(product.name), (product.name, 1, 1)
    task = scheduler.tasks[key]
    for state, left in [("waiting", {before[1, 1]}), ("no-worker", own)]:
        task.state = state
        scheduler.finish([key], "no-worker")
        assert task.worker_restrictions == left
        assert task.loose_restrictions == (own is None)
    assert scheduler.handed_out == [key]
    # Others stay where they are, until they have no worker.
    homes = scheduler.homes(product.name)
    assert {x: homes[x] for x in before if x != (1, 1)} == {
        x: w for x, w in before.items() if x != (1, 1)
    }


def test_inputs_of_some_workers_stay_there():
    A, B = da.ones((4, 4), chunks=1), da.zeros((4, 4), chunks=1)
    product = td.gemm(A, B)
    scheduler = FakeScheduler(product, 4)
    inputs = [x for x in scheduler.tasks.values() if x.key[0] == A.name]
    for task in inputs:
        task.worker_restrictions = {"b", "c"}
    scheduler.place()
    assert all(task.worker_restrictions <= {"b", "c"} for task in inputs)
    assert {*scheduler.homes(product.name).values()} == {*"abcd"}


def test_no_task_is_sent_to_a_reader_that_has_gone():
    tiles = da.ones(2, chunks=1)
    scheduler = FakeScheduler(tiles, 2)
    readers = {(tiles.name, 0): "a", (tiles.name, 1): "gone"}
    scheduler.place(annotations={"twom-reader": readers})
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
    scheduler.finish(scheduler.tasks.keys() - {*cells})
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
    tile.waiters += [
        SimpleNamespace(
            key=w, processing_on=scheduler.workers[w], worker_restrictions=None
        )
        for w in taken_on
    ]
    cells = scheduler.homes(product.name)
    scheduler.finish((product.name, *c) for c, worker in cells.items() if worker == "a")
    assert scheduler.removed == [("a", tile.key)] * is_dropped


def swept_on(workers, planned, size, num_moduli=4, hosts=1):
    """Make a product in sweeps, planned for some workers, on as many or on others."""
    A, B = da.ones((4, 4), chunks=1), da.zeros((4, 4), chunks=1)
    with in_sweeps(planned, size):
        product = td.gemm(A, B, num_moduli=num_moduli)
    held = {(x.name, *i): "abcd"[sum(i) % workers] for x in (A, B) for i in INDICES}
    scheduler = FakeScheduler(product, workers, held, hosts)
    scheduler.place()
    return product.name, product.name.replace("product", "sweep"), scheduler


@cases(
    ("workers", "planned", "size", "most"),
    [
        (4, (2, 2), (2, 1), 2),
        # Two of the workers can be as fast as all of them.
        (3, (2, 2), (2, 1), 4),
        # No grid of four has the sweeps of three.
        (4, (1, 3), (2, 2), 2),
    ],
)
def test_a_sweep_has_one_worker(workers, planned, size, most):
    product, name, scheduler = swept_on(workers, planned, size)
    homes, steps = scheduler.homes(product), scheduler.homes(name)
    assert len(homes) == 16
    # The last of four panels is multiplied where tiles are decoded.
    assert max(Counter(steps.values()).values()) == 3 * most
    for (i, j), worker in homes.items():
        needed = scheduler.tasks[product, i, j].dependencies
        (before,) = (x for x in needed if x.key[0] == name)
        assert {steps[x] for x in steps if x[:2] == before.key[1:3]} == {worker}


def test_the_workers_of_each_layer_decode_a_share_of_a_sweep():
    with split_along_k(2, 1):
        product, name, scheduler = swept_on(4, (1, 2), (4, 1))
    homes, steps = scheduler.homes(product), scheduler.homes(name)
    assert set(Counter(homes.values()).values()) == {4}
    parts = scheduler.homes(name.replace("sweep", "part"))
    # One for each sweep and layer, to the worker of the other.
    assert len(parts) == 4 * 2
    for (*head, layer, first, to), worker in parts.items():
        assert worker == steps[*head, layer, first]
        assert to == 1 - layer
    for cell, worker in homes.items():
        needed = [x.key for x in scheduler.tasks[product, *cell].dependencies]
        (own,) = {steps[x[1:]] for x in needed if x[0] == name}
        assert worker == own


def test_tiles_come_one_step_ahead_and_go_with_the_step():
    product, name, scheduler = swept_on(4, (2, 2), (2, 2))
    scheduler.finish(x for x in scheduler.tasks if x[0] not in (name, product))
    homes = scheduler.homes(name)

    def tiles_of(tasks, worker):
        """List what tasks take from other workers."""
        needed = {x for task in tasks for x in task.dependencies}
        there = (x for x in needed if scheduler.workers[worker] not in x.who_has)
        return [x for x in there if "_like" in x.key[0]]

    for key, worker in sorted(homes.items()):
        task = scheduler.tasks[name, *key]
        # The last panel is multiplied where tiles are decoded.
        own, ahead = (tiles_of(x, worker) for x in ([task], task.dependents))
        task.processing_on = scheduler.workers[worker]
        scheduler.plugin.transition(task.key, "waiting", "processing")
        found = {*scheduler.fetched}
        assert found == {(worker, x.key) for x in ahead} != set()
        own = [x for x in own if x not in ahead]  # others are needed there
        holders = [x.who_has for x in own]
        for tile in own:
            tile.who_has = [*scheduler.workers.values()]
        scheduler.finish([task.key])
        assert sorted(scheduler.removed) == sorted((worker, x.key) for x in own)
        for tile, held in zip(own, holders, strict=True):
            tile.who_has = held
        scheduler.removed.clear()
        scheduler.fetched.clear()


@cases("num_moduli", [None, 4])
def test_tiles_of_first_steps_come_with_the_end_of_the_analysis(num_moduli):
    _, name, scheduler = swept_on(4, (2, 2), (2, 2), num_moduli, hosts=2)
    first = [key for key in scheduler.homes(name) if key[3:] == (0,)]
    expected = {
        (worker, x.key)
        for key in first
        for worker in scheduler.tasks[name, *key].worker_restrictions
        for x in scheduler.tasks[name, *key].dependencies
        if "_like" in x.key[0] and scheduler.workers[worker] not in x.who_has
    }
    for stage in ("twom-sums", "twom-spec", "twom-exponents"):
        own = [x for x in scheduler.tasks if x[0].startswith(stage)]
        assert len(scheduler.fetched) == len({*scheduler.fetched})
        for key in own:
            scheduler.plugin.transition(key, "waiting", "processing")
        begun = stage != "twom-sums" and bool(own or scheduler.fetched)
        assert {*scheduler.fetched} == (expected if begun else set())
    # A tile enters a host from one holder.
    sought = {}
    for (worker, key), holder in scheduler.sought.items():
        host = scheduler.workers[worker].host
        sought.setdefault((key, host), set()).add(holder)
    assert all(len(x) == 1 for x in sought.values())


def figures(slots, count, workers):
    """Return the largest over the mean work, and the largest share of the rows."""
    work, rows = Counter(), defaultdict(set)
    for (i, j), slot in slots.items():
        work[slot] += 1 + (i != j)
        rows[slot] |= {i, j}
    assert work.total() == count**2
    fullest = max(map(len, rows.values())) / count
    return max(work.values()) * workers / count**2, fullest


def placed(count, workers):
    """Place the tiles of an update on workers; list the worker of each."""
    update = td.herk(da.ones((count, 1), chunks=1), num_moduli=3, uplo="full")
    scheduler = FakeScheduler(update, workers)
    scheduler.place()
    cells = scheduler.homes(update.name.replace("update", "product"))
    assert set(cells) == {(i, j) for i in range(count) for j in range(i + 1)}
    return cells


# Affine planes, where rows are held by c of c^2 points, and projective ones; the last
# three are searched for.
@cases(
    ("workers", "count", "balance", "held"),
    [
        (6, 16, 1.008, 0.500),
        (12, 36, 1.000, 0.333),
        (30, 50, 1.008, 0.200),
        (7, 14, 1.000, 0.429),
        (13, 26, 1.000, 0.308),
        (4, 20, 1.000, 0.650),
        (16, 24, 1.000, 0.333),
    ],
)
def test_figures(workers, count, balance, held):
    found = figures(placed(count, workers), count, workers)
    assert found == pytest.approx((balance, held), abs=1e-3)
    plan = td.plan(td.herk, (count, 1), chunks=1, n_workers=workers)
    assert found[1] == plan.held_fraction


@cases(
    ("workers", "count"),
    # On 32 workers covers are worse than a grid.
    [(w, n) for w in (2, 3, 5, 9, 10, 11, 14, 15) for n in (1, 5, 12, 20)] + [(32, 9)],
)
def test_no_worker_is_busier_or_fuller_than_on_the_best_grid(workers, count):
    balance, held = figures(placed(count, workers), count, workers)
    cells = [(i, j) for i in range(count) for j in range(i + 1)]
    grids = [(p, workers // p) for p in range(1, workers + 1) if workers % p == 0]
    best_balance, best_held = min(
        figures({(i, j): (i % pr, j % pc) for i, j in cells}, count, workers)
        for pr, pc in grids
    )
    assert balance <= best_balance
    assert held <= best_held


@cases("routine", ["gemm", "herk", "her2k"])
@cases("workers", [1, 4, 6, 16])
def test_rows_that_are_looked_at_together_belong_to_the_same_workers(routine, workers):
    shapes = [(48 * 64, 48 * 64)] * (1 if routine == "herk" else 2)
    given = {"n_workers": workers, "threads_per_worker": 2, "chunks": 64}
    plan = td.plan(getattr(td, routine), *shapes, **given)
    needed = list_needed(plan)
    groups = defaultdict(set)
    for (side, i), slots in needed.items():
        groups[side, plan.grid.groups_of(side)[i]].add(frozenset(slots))
    assert all(len(x) == 1 for x in groups.values())
    assert len(groups) <= 8 + 2 * workers
