"""Placement of triangles: the figures of the design, and laws for all sizes."""

from collections import Counter, defaultdict

import dask.array as da
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.schedulers import FakeScheduler


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
        (16, 24, 1.000, 0.375),
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
