"""Placement: grids of workers, slots, and the tasks that follow a tile."""

from collections import Counter, defaultdict
from itertools import product as product_of
from types import SimpleNamespace

import dask.array as da
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.schedulers import FakeScheduler, FakeTask
from twom_dist.tiles.placement.grids import (
    LITTLE,
    WorkerGrid,
    assign_slots,
    balanced_grids,
    choose_grid,
    summa_bytes,
    worker_grids,
)
from twom_dist.tiles.placement.homes import choose_homes
from twom_dist.tiles.placement.plugin import PlacementPlugin
from twom_dist.tiles.placement.readers import READER
from twom_dist.tiles.placement.replicas import Replicas
from twom_dist.tiles.placement.seating import with_ancestors
from twom_dist.tiles.placement.triangle import triangle_map


@cases("workers", range(1, 13))
def test_grids_are_the_factorisations(workers):
    grids = worker_grids(workers)
    assert all(g.pr * g.pc == workers for g in grids)
    assert len(set(grids)) == sum(workers % p == 0 for p in range(1, workers + 1))


@pytest.mark.parametrize(
    ("grid", "mt", "nt", "load"),
    [((1, 1), 3, 5, 15), ((2, 2), 8, 8, 16), ((2, 2), 3, 3, 4), ((4, 1), 3, 7, 7)],
)
def test_slots_are_cyclic_and_the_load_is_counted(grid, mt, nt, load):
    grid = WorkerGrid(*grid)
    slots = Counter(grid.slot(i, j) for i in range(mt) for j in range(nt))
    assert set(slots) <= set(range(grid.pr * grid.pc))
    assert max(slots.values()) == grid.largest_load(mt, nt) == load


@cases("workers", [1, 2, 4, 6])
@cases(("mt", "nt"), [(8, 8), (12, 4), (1, 5), (3, 2)])
def test_summa_bytes_are_those_of_tiles_that_start_on_a_consumer(workers, mt, nt):
    for grid in worker_grids(workers):
        rows = [{grid.slot(i, j) for j in range(nt)} for i in range(mt)]
        columns = [{grid.slot(i, j) for i in range(mt)} for j in range(nt)]
        moved_a = sum(len(users) - 1 for users in rows) * 7
        moved_b = sum(len(users) - 1 for users in columns) * 5
        found = summa_bytes(grid, mt, nt, 7 * mt, 5 * nt)
        assert found == moved_a + moved_b


@cases(
    ("workers", "tiles", "a_bytes", "b_bytes", "grid"),
    [
        (4, (8, 8), 1, 1, (2, 2)),
        (4, (8, 8), 100, 1, (4, 1)),
        (4, (8, 8), 1, 100, (1, 4)),
        (6, (12, 12), 1, 1, (2, 3)),
        (6, (2, 3), 1, 1, (2, 3)),
        (6, (3, 2), 1, 1, (3, 2)),
        (3, (9, 1), 1, 1, (3, 1)),
        (5, (1, 10), 1, 1, (1, 5)),
        (1, (4, 4), 1, 1, (1, 1)),
        (0, (4, 4), 1, 1, (1, 1)),
        # Some workers had better have nothing.
        (7, (6, 6), 1, 1, (2, 3)),
        (7, (4, 4), 1, 1, (2, 2)),
        (6, (5, 5), 1, 1, (1, 5)),
        (97, (10, 10), 1, 1, (5, 10)),
        (10**9, (5, 5), 1, 1, (5, 5)),
    ],
)
def test_the_grid_balances_first_and_then_moves_least(
    workers, tiles, a_bytes, b_bytes, grid
):
    found = choose_grid(workers, *tiles, a_bytes, b_bytes)
    assert (found.pr, found.pc) == grid


@pytest.mark.parametrize("workers", [5, 12, 27, 35, 97])
def test_fewer_workers_neither_work_nor_hold_more(workers):
    for mt, nt in product_of(range(1, 21, 3), range(1, 21, 4)):
        exact = min(
            (g.largest_load(mt, nt), -g.largest_edges(mt, nt))
            for g in worker_grids(workers)
        )
        for g in balanced_grids(workers, mt, nt):
            assert g.pr * g.pc <= workers
            assert g.largest_load(mt, nt) <= LITTLE * exact[0]
            assert g.largest_edges(mt, nt) <= -exact[1]


def test_slots_go_where_the_bytes_are():
    gains = [{"b": 5}, {"c": 5, "a": 1}, {"a": 5, "b": 4}]
    assert assign_slots(gains, ["a", "b", "c"]) == ["b", "c", "a"]
    assert assign_slots([{}, {}], ["a", "b"]) == ["a", "b"]
    assert assign_slots([], []) == []


def test_tiles_that_are_looked_at_together_begin_where_all_are_needed():
    seats = {1: "ab", 2: "ab", 3: "a", 4: "ab", 5: "bc", 6: "ab"}
    held = dict.fromkeys(seats, "")
    alone = [[x] for x in seats]
    assert choose_homes(alone, seats, held) == dict(zip(seats, "abaacb", strict=True))
    together = [[], [1, 2], [3], [4, 5], [1, 6]]
    found = choose_homes(together, seats, held)
    assert found == dict(zip(seats, "aaabbb", strict=True))
    assert choose_homes([[1], [2]], seats, held | {1: "bz"}) == {1: "b", 2: "a"}


def test_what_only_one_worker_needs_follows_the_tile_that_needs_it():
    both, memory = FakeTask("both"), FakeTask("memory", state="memory")
    outside, placed = FakeTask("outside"), FakeTask("placed", restricted="z")
    behind = FakeTask("behind", FakeTask("leaf"), both, outside)
    twice = FakeTask("twice", behind)
    other_product = FakeTask(("twom-product-1", 0, 0), FakeTask("its input"))
    a = FakeTask("a", FakeTask("x", twice), FakeTask("y", twice, memory, placed))
    b, c = FakeTask("b", both, other_product), FakeTask("c", FakeTask("z"))
    FakeTask("bystander", outside)
    found = list(with_ancestors([(a, "p"), (b, "q"), (c, "q")]))
    expected = dict.fromkeys(["a", "x", "y", "twice", "behind", "leaf"], "p")
    expected |= dict.fromkeys(["b", "c", "z"], "q")
    assert {task.key: worker for task, worker in found} == expected
    assert len(found) == len(expected)


def starts(scheduler, *arrays):
    """Count the tiles that begin on each worker."""
    return Counter(w for x in arrays for w in scheduler.homes(x.name).values())


def test_tiles_begin_evenly_on_the_workers_that_multiply_them():
    A, B = da.ones((6, 4), chunks=1), da.zeros((4, 6), chunks=1)
    product = td.gemm(A, B)
    scheduler = FakeScheduler(product, 4)
    scheduler.place()
    cells = scheduler.homes(product.name)
    assert len(cells) == 36
    assert all(w == cells[i % 2, j % 2] for (i, j), w in cells.items())
    assert Counter(cells.values()) == dict.fromkeys("abcd", 9)
    for x, place in ((A, 0), (B, 1)):
        for index, worker in scheduler.homes(x.name).items():
            line = index[place]
            assert worker in {w for c, w in cells.items() if c[place] == line}
    assert starts(scheduler, A, B) == dict.fromkeys("abcd", 12)
    # What looks at a tile is where it begins.
    token = product.name.rpartition("-")[2]
    for side, x in (("left", A), ("right", B)):
        homes = scheduler.homes(f"twom-sums-{token}")
        for (own, i, step, *_), worker in homes.items():
            if own == side:
                tile = (i, step) if side == "left" else (step, i)
                assert worker == scheduler.homes(x.name)[tile]
    assert all(
        task.loose_restrictions
        for task in scheduler.tasks.values()
        if task.worker_restrictions
    )


@pytest.mark.parametrize("uplo", ["full", "lower"])
@pytest.mark.parametrize(("rows", "steps"), [(12, 5), (6, 1), (7, 3)])
def test_rows_of_an_update_begin_evenly_where_its_triangle_needs_them(
    rows, steps, uplo, monkeypatch
):
    # Looked at in enough strips for as many threads.
    monkeypatch.setattr("twom_dist.run.client.CPU_COUNT", 6)
    A = da.ones((rows, steps), chunks=1)
    update = td.herk(A, uplo=uplo)
    scheduler = FakeScheduler(update, 6)
    scheduler.place()
    needed = defaultdict(set)
    name = update.name.replace("update", "product")
    for cell, worker in scheduler.homes(name).items():
        needed[worker].update(cell)
    triangle = triangle_map(rows, 6)
    held = (triangle.rows_of(slot) for slot in range(6))
    assert sorted(map(sorted, needed.values())) == sorted(
        map(sorted, filter(None, held))
    )
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
        (x.name, i, j): "dcba"[i % 2 * 2 + j % 2]
        for x in (A, B)
        for i, j in product_of(range(4), repeat=2)
    }
    scheduler = FakeScheduler(product, 4, held)
    scheduler.place()
    cells = scheduler.homes(product.name)
    assert [cells[c] for c in ((0, 0), (0, 1), (1, 0), (1, 1))] == [*"dcba"]
    assert not starts(scheduler, A, B)  # they lie somewhere already


def test_a_product_that_somebody_has_placed_is_left_alone():
    product = td.gemm(*(da.ones((4, 4), chunks=1) for _ in range(2)))
    scheduler = FakeScheduler(product, 4)
    scheduler.tasks[product.name, 3, 3].worker_restrictions = {"b"}
    assert scheduler.place().placed == set()
    assert scheduler.homes(product.name) == {(3, 3): "b"}


def test_only_the_tasks_of_a_worker_that_goes_lose_their_place():
    product = td.gemm(*(da.ones((4, 4), chunks=1) for _ in range(2)))
    scheduler = FakeScheduler(product, 4)
    plugin = scheduler.place()
    before = scheduler.homes(product.name)
    forgotten = scheduler.tasks.pop((product.name, 1, 1))
    plugin.remove_worker(scheduler, "a")
    left = {c: w for c, w in before.items() if w != "a" and c != (1, 1)}
    assert len(left) == 11
    assert scheduler.homes(product.name) == left
    assert forgotten.worker_restrictions == {before[1, 1]}


def test_a_task_is_not_sent_to_a_reader_that_has_gone():
    tiles = da.ones(2, chunks=1)
    scheduler = FakeScheduler(tiles, 2)
    readers = {(tiles.name, 0): "a", (tiles.name, 1): "gone"}
    plugin = PlacementPlugin()
    plugin.start(scheduler)
    plugin.update_graph(scheduler, tasks=[], annotations={READER: readers})
    assert scheduler.homes(tiles.name) == {(0,): "a"}


def test_what_is_placed_is_not_stolen():
    product, kept = td.gemm(*(da.ones((4, 4), chunks=1) for _ in range(2))), []
    scheduler = FakeScheduler(product, 4)
    plugin = scheduler.place()
    stealing = SimpleNamespace(remove_key_from_stealable=kept.append)
    scheduler.extensions["stealing"] = stealing
    for key in scheduler.tasks:
        plugin.transition(key, "waiting", "processing")
    assert {task.key for task in kept} == plugin.placed


@pytest.mark.parametrize("status", ["running", None])
def test_a_pause_that_is_over_is_forgotten(status):
    product = td.gemm(*(da.ones((4, 4), chunks=1) for _ in range(2)))
    scheduler = FakeScheduler(product, 4)
    plugin = scheduler.place()
    plugin.paused["a"] = None
    if status is None:
        del scheduler.workers["a"]
    plugin._let_go("a")
    assert plugin.paused == {}


# --- copies of tiles ------------------------------------------------------------------


@cases(
    ("holders", "taken_on", "is_dropped"),
    [("a", "", False), ("b", "", False), ("ab", "b", True), ("ab", "a", False)],
)
def test_a_copy_is_dropped_but_never_the_only_one(holders, taken_on, is_dropped):
    """Nor one that a task there takes: its worker would end itself."""
    tile = da.ones(1, chunks=1)
    scheduler = FakeScheduler(tile, 2, {(tile.name, 0): holders})
    takers = [SimpleNamespace(processing_on=scheduler.workers[w]) for w in taken_on]
    scheduler.tasks[tile.name, 0].waiters = takers
    asked = []
    scheduler.request_remove_replicas = lambda *given, **_: asked.append(given)
    scheduler.place()._drop_replicas("a", [(tile.name, 0)])
    assert asked == [("a", [(tile.name, 0)])] * is_dropped


def test_copies_go_with_the_last_product_that_takes_them():
    A, B = da.ones((4, 4), chunks=1), da.zeros((4, 4), chunks=1)
    first, second = (td.gemm(A, B, alpha=x, num_moduli=4) for x in (1, 2))
    indices = [*product_of(range(4), repeat=2)]
    held = {(x.name, *i): "abcd"[sum(i) % 4] for x in (A, B) for i in indices}
    scheduler = FakeScheduler(first + second, 4, held)
    plugin = PlacementPlugin()
    plugin.start(scheduler)
    plugin.update_graph(scheduler, tasks=[(first.name, *i) for i in indices])
    for task in scheduler.tasks.values():
        if task.key in held:  # its copies have arrived
            task.who_has = [*scheduler.workers.values()]
    plugin.update_graph(scheduler, tasks=[(second.name, *i) for i in indices])
    early, late = (
        [tile for i in indices for tile in plugin.replicas.done((x.name, *i))[1]]
        for x in (first, second)
    )
    assert not early
    assert Counter(late).keys() == held.keys()


def test_a_task_that_comes_again_is_watched_once():
    replicas = Replicas()
    for _ in range(2):
        replicas.watch("task", "a", ["tile"])
    assert replicas.done("task") == ("a", ["tile"])
