"""Placement of triangles: planes, the figures of the design, and laws for all sizes."""

from collections import Counter, defaultdict
from itertools import combinations, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import cases
from twom_dist.tiles.placement import triangle
from twom_dist.tiles.placement.covers import (
    DIFFERENCES,
    bits,
    greedy_cover,
    plane_cover,
)
from twom_dist.tiles.placement.grids import worker_grids
from twom_dist.tiles.placement.triangle import (
    TriangleMap,
    held_rows,
    loads,
    place_triangle,
    triangle_map,
)


def cyclic_maps(count, workers):
    """The same triangle on every cyclic grid."""
    cells = [(i, j) for i in range(count) for j in range(i + 1)]
    for grid in worker_grids(workers):
        slots = {cell: grid.slot(*cell) for cell in cells}
        yield TriangleMap(count, workers, slots)


def figures(triangle):
    return triangle.balance, triangle.held_fraction


def pairs_of(cover):
    """How many sets hold each pair of points."""
    held = Counter(pair for s in cover.sets for pair in combinations(bits(s), 2))
    return {pair: held[pair] for pair in combinations(range(cover.points), 2)}


# --- covers -----------------------------------------------------------------------


def test_each_difference_is_that_of_one_pair():
    for order, numbers in DIFFERENCES.items():
        count = order * (order + 1) + 1
        found = sorted((x - y) % count for x, y in permutations(numbers, 2))
        assert found == list(range(1, count))


@cases("projective", [0, 1])
@cases("order", DIFFERENCES)
def test_two_points_of_a_plane_share_one_line(order, projective):
    lines = order * (order + 1) + projective
    cover = plane_cover(lines)
    assert len(cover.sets) == lines
    assert cover.points == (lines if projective else order**2)
    assert {s.bit_count() for s in cover.sets} == {order + projective}
    assert set(pairs_of(cover).values()) == {1}


def test_other_numbers_of_sets_have_no_plane():
    known = [n for n in range(1, 200) if plane_cover(n) is not None]
    of_order = [c * (c + 1) + extra for c in DIFFERENCES for extra in (0, 1)]
    assert known == of_order


@cases("sets", [1, 2, 3, 5, 8, 17])
@cases("points", [2, 3, 7, 12])
def test_greedy_sets_cover_every_pair(points, sets):
    cover = greedy_cover(points, sets, seed=1)
    assert len(cover.sets) == sets
    assert min(pairs_of(cover).values()) >= 1
    assert greedy_cover(points, sets, seed=1) == cover


def test_spread_rows_take_the_place_of_points():
    cover = plane_cover(6).spread(10)
    assert cover.points == 10
    assert [{row % 4 for row in bits(s)} for s in cover.sets] == [
        set(bits(s)) for s in plane_cover(6).sets
    ]


# --- tables -----------------------------------------------------------------------


@pytest.mark.parametrize("rows_of_a_point", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("order", [2, 3, 5])
def test_triangle_blocks_reach_the_figures_of_affine_planes(order, rows_of_a_point):
    """The share c / c^2 of the rows, where c^2 divides their count.

    A balance of 1 + 1 / c^3 is that of diagonal blocks which stay whole; those of
    several rows are shared among the lines through their point.
    """
    count, workers = order**2 * rows_of_a_point, order * (order + 1)
    found = triangle_map(count, workers)
    assert found.held_fraction == order / order**2
    assert found.copies == order * count
    assert found.balance <= 1 + 1 / order**3 + 1e-9


# (balance, held fraction); cyclic: of the grid with the least load.
@pytest.mark.parametrize(
    ("workers", "count", "ours", "cyclic"),
    [
        (6, 16, (1.008, 0.500), (1.195, 0.69)),
        (12, 36, (1.000, 0.333), (1.139, 0.50)),
        (30, 50, (1.008, 0.200), (1.188, 0.36)),
        # Projective planes.
        (7, 14, (1.000, 0.429), (1.429, 1.00)),
        (13, 26, (1.000, 0.308), (1.462, 1.00)),
        # Searched for.
        (4, 20, (1.000, 0.650), (1.100, 1.00)),
        (8, 24, (1.000, 0.458), (1.167, 0.75)),
        (16, 24, (1.000, 0.375), (1.167, 0.50)),
    ],
)
def test_figures(workers, count, ours, cyclic):
    grid = min(map(figures, cyclic_maps(count, workers)))
    assert figures(triangle_map(count, workers)) == pytest.approx(ours, abs=1e-3)
    assert grid == pytest.approx(cyclic, abs=5e-3)


@cases(
    ("workers", "count"),
    # On 32 workers covers are worse than a grid.
    [*product(range(2, 17), [1, 5, 12, 32, 70]), (32, 9)],
)
def test_no_worker_is_busier_or_fuller_than_on_the_best_grid(workers, count):
    balance, held = figures(triangle_map(count, workers))
    best_balance, best_held = min(map(figures, cyclic_maps(count, workers)))
    assert balance <= best_balance
    assert held <= best_held


def test_rows_beyond_those_of_the_search_come_out_as_even():
    small, large = triangle_map(60, 11), triangle_map(180, 11)
    assert large.balance <= 1.02
    assert large.held_fraction == pytest.approx(small.held_fraction, abs=0.02)


@pytest.mark.parametrize(("count", "workers"), [(270, 64), (300, 31), (515, 6)])
def test_rows_beyond_those_that_are_placed_follow_them(count, workers):
    found = triangle_map(count, workers)
    assert len(found.slots) < 256 * 257 / 2
    assert found.balance <= 1.04
    best = min(held for _, held in map(figures, cyclic_maps(40, workers)))
    assert found.held_fraction < best
    work, rows = Counter(), defaultdict(set)
    for i in range(count):
        for j in range(i + 1):
            slot = found.slot(i, j)
            assert workers > slot == found.slot(j, i)
            work[slot] += 1 + (i != j)
            rows[slot] |= {i, j}
    assert work.total() == count**2
    assert found.balance == max(work.values()) * workers / count**2
    assert {slot: found.rows_of(slot) for slot in rows} == rows


@pytest.mark.parametrize("workers", [10**3, 27720, 10**6])
def test_many_workers_are_served_without_a_search(workers, monkeypatch):
    assert workers > triangle.SEARCHED
    triangle_map.cache_clear()
    for search in ("_search_cover", "greedy_cover"):
        monkeypatch.setattr(triangle, search, pytest.fail)
    found = triangle_map(1000, workers)
    assert found.held_fraction < 0.1


# --- laws -------------------------------------------------------------------------

counts = st.integers(0, 40)
worker_counts = st.integers(1, 20)


@given(counts, worker_counts)
def test_every_cell_has_one_slot(count, workers):
    slots = place_triangle(count, workers)
    assert set(slots) == {(i, j) for i in range(count) for j in range(i + 1)}
    assert set(slots.values()) <= set(range(workers))
    assert place_triangle(count, workers) == slots


@given(counts, worker_counts)
def test_maps_count_what_their_cells_say(count, workers):
    triangle = triangle_map(count, workers)
    rows = held_rows(triangle.slots)
    for slot in range(workers):
        assert triangle.rows_of(slot) == rows.get(slot, set())
    for (i, j), slot in triangle.slots.items():
        assert triangle.slot(i, j) == triangle.slot(j, i) == slot
        assert {i, j} <= triangle.rows_of(slot)
    work = loads(triangle.slots)
    assert work.total() == count**2
    assert triangle.copies == sum(map(len, rows.values())) - count
    if count:
        assert triangle.held_fraction * count == max(map(len, rows.values()))
        assert triangle.balance == max(work.values()) * workers / count**2


@given(st.integers(2, 40), worker_counts)
def test_a_slot_does_no_more_than_its_rows_allow(count, workers):
    triangle = triangle_map(count, workers)
    work = loads(triangle.slots)
    assert all(work[s] <= len(triangle.rows_of(s)) ** 2 for s in range(workers))


def test_nothing_to_place():
    empty = triangle_map(0, 4)
    assert (empty.slots, empty.held_fraction, empty.balance, empty.copies) == (
        {},
        0,
        1,
        0,
    )


def test_a_kept_map_cannot_be_changed():
    with pytest.raises(TypeError):
        triangle_map(3, 2).slots[0, 0] = 1
