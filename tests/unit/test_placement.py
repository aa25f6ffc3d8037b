"""Placement: grids of workers, slots, and the tasks that follow a tile."""

from collections import Counter
from itertools import product

import pytest

from twom_dist.tiles.placement import (
    WorkerGrid,
    assign_slots,
    balanced_grids,
    choose_grid,
    spread,
    summa_bytes,
    worker_grids,
)
from twom_dist.tiles.plugin import with_ancestors


@pytest.mark.parametrize("workers", range(1, 13))
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


@pytest.mark.parametrize("workers", [1, 2, 4, 6])
@pytest.mark.parametrize(("mt", "nt"), [(8, 8), (12, 4), (1, 5), (3, 2)])
def test_summa_bytes_are_those_of_tiles_that_start_on_a_consumer(workers, mt, nt):
    for grid in worker_grids(workers):
        rows = [{grid.slot(i, j) for j in range(nt)} for i in range(mt)]
        columns = [{grid.slot(i, j) for i in range(mt)} for j in range(nt)]
        moved_a = sum(len(users) - 1 for users in rows) * 7
        moved_b = sum(len(users) - 1 for users in columns) * 5
        found = summa_bytes(grid, mt, nt, 7 * mt, 5 * nt)
        assert found == moved_a + moved_b


@pytest.mark.parametrize(
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
    for mt, nt in product(range(1, 21, 3), range(1, 21, 4)):
        exact = min(
            (g.largest_load(mt, nt), -g.largest_edges(mt, nt))
            for g in worker_grids(workers)
        )
        for g in balanced_grids(workers, mt, nt):
            assert g.pr * g.pc <= workers
            assert g.largest_load(mt, nt) <= exact[0]
            assert g.largest_edges(mt, nt) <= -exact[1]


def test_slots_go_where_the_bytes_are():
    gains = [{"b": 5}, {"c": 5, "a": 1}, {"a": 5, "b": 4}]
    assert assign_slots(gains, ["a", "b", "c"]) == ["b", "c", "a"]
    assert assign_slots([{}, {}], ["a", "b"]) == ["a", "b"]
    assert assign_slots([], []) == []


def test_spread_takes_turns():
    either = {1: "ab", 2: "ab", 3: "a", 4: "ba"}
    assert spread(either, either.__getitem__) == {1: "a", 2: "b", 3: "a", 4: "b"}


class FakeTask:
    """What the placement reads of a task of the scheduler."""

    def __init__(self, key, *dependencies, state="waiting", restricted=()):
        self.key, self.state, self.who_has = key, state, ()
        self.dependencies, self.dependents = dependencies, []
        self.worker_restrictions = set(restricted)
        self.host_restrictions = self.resource_restrictions = None
        for needed in dependencies:
            needed.dependents.append(self)


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
