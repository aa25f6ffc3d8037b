"""Grids of workers, m x n x k: nobody idle, and as little moved as any grid moves.

References
----------
.. [1] H. Al Daas et al., "Tight memory-independent parallel matrix multiplication
   communication lower bounds", SPAA 2022, arXiv:2205.13407.
"""

from itertools import product

import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.stages import count_stages

SIZES = (10**4, 10**5, 10**6)
TILE = 5000
# Of complex128: bytes of an entry, and of the residues of one with 16 moduli.
ENTRY, RESIDUES = 16, 32
# Times the least work or traffic, which counts as little as well.
LITTLE = 1.1


def ceil(x: int, y: int) -> int:
    return -(-x // y)


def all_grids(m, n, k, workers):
    """(work, moved) of every grid: by hand, one worker after the other."""
    mt, nt, kt = (ceil(size, TILE) for size in (m, n, k))
    for pr, pc in product(range(1, workers + 1), repeat=2):
        for pk in range(1, min(kt, workers // (pr * pc)) + 1):
            work = ceil(mt, pr) * ceil(nt, pc) * ceil(kt, pk)
            copies = (min(pc, nt) - 1) * m * k + (min(pr, mt) - 1) * k * n
            yield work, copies * ENTRY + (pk - 1) * m * n * RESIDUES


def lower_bound(m, n, k, workers):
    """Bytes that any cut of the work into even shares moves, by [1]_.

    A share that takes x entries of A, y of B and z of C has at most sqrt(x y z)
    products, and begins or ends with 1/workers of each matrix.
    """
    sizes, weights = np.array([m * k, k * n, m * n]), np.array([ENTRY, ENTRY, RESIDUES])
    target, found = (m * n * k / workers) ** 2, []
    # The least sum has each of the three at its least, at its most, or in balance.
    for ends in product((1 / workers, 1, np.nan), repeat=3):
        own, free = sizes * ends, np.isnan(ends)
        rest = target / np.prod(own[~free])
        each = (rest * np.prod(weights[free])) ** (1 / max(1, free.sum()))
        own = np.where(free, each / weights, own)
        inside = (own <= 1.001 * sizes).all() and (sizes <= 1.001 * own * workers).all()
        if inside and 1.001 * np.prod(own) >= target:
            found.append(weights @ (own * workers - sizes))
    return min(found)


@cases("workers", [4, 16, 64])
@cases("m", SIZES)
@cases("n", SIZES)
@cases("k", SIZES)
def test_plans_move_as_little_as_the_best_grid(m, n, k, workers):
    plan = td.plan(
        td.gemm, (m, k), (k, n), chunks=TILE, n_workers=workers, num_moduli=16
    )
    pr, pc, pk = plan.worker_grid
    mt, nt, kt = plan.tiles
    assert plan.layers == pk
    work = ceil(mt, pr) * ceil(nt, pc) * ceil(kt, pk)
    grids = [*all_grids(m, n, k, workers)]
    least = min(grid[0] for grid in grids)
    assert work <= LITTLE**2 * least
    alike = (moved for other, moved in grids if other <= work)
    assert plan.bytes_moved <= LITTLE * min(alike)
    # The bound knows of no tiles: two along a dimension are a coarse cut.
    bound = lower_bound(m, n, k, pr * pc * pk)
    most = 1.25 if min(mt, nt, kt) >= 20 else 2.5
    assert 0.99 * bound <= plan.bytes_moved <= most * bound
    # Where C is small and k long nothing but residues moves; where k is short none do.
    if k >= 100 * max(m, n):
        assert pk >= workers / 4
    if max(m, n) >= 10 * k and pr * pc == workers:
        assert pk == 1


@pytest.mark.parametrize("routine", [td.gemm, td.herk, td.syrk, td.her2k, td.syr2k])
@cases("workers", [2, 7, 8, 64])
def test_tall_matrices_leave_nobody_idle(routine, workers):
    one = routine in (td.herk, td.syrk)
    shapes = [(480_000, 640)] * (1 if one else 2)
    op = "T" if routine in (td.syrk, td.syr2k) else "C"
    ops = {"op_a": "C"} if routine is td.gemm else {"op": op}
    plan = td.plan(routine, *shapes, n_workers=workers, **ops)
    # 235 tiles along k: of 64 workers 59 have 4, and nobody would be done earlier.
    layers = {64: 59}.get(workers, workers)
    assert (plan.layers, plan.idle_workers) == (layers, workers - layers)
    entries = 640 * 640 * plan.spec.system.num_products
    assert plan.bytes_moved == (layers - 1) * entries
    assert f"{layers} layers along k" in str(plan) or f"1 x 1 x {layers}" in str(plan)


def test_more_workers_than_tiles_of_all_kinds_are_idle():
    plan = td.plan(td.gemm, (20, 30), (30, 10), chunks=10, n_workers=50)
    assert plan.tiles == (2, 1, 3)
    assert plan.idle_workers == 50 - 2 * 3
    plan = td.plan(td.gemm, (20, 10), (10, 10), chunks=10, n_workers=50)
    assert (plan.layers, plan.idle_workers) == (1, 48)


def test_native_and_empty_products_keep_to_one_order():
    shapes = (20, 3000), (3000, 20)
    for options in ({"method": "blas"}, {"alpha": 0}):
        plan = td.plan(td.gemm, *shapes, chunks=100, n_workers=8, **options)
        assert plan.layers == 1


@cases(("threads", "parts"), [(1, 1), (5, 1), (64, 20)])
def test_parts_are_for_threads_that_have_no_tiles_of_c(threads, parts):
    sizes = {"chunks": 100, "n_workers": 1, "threads_per_worker": threads}
    plan = td.plan(td.gemm, (300, 10_000), (10_000, 100), num_moduli=16, **sizes)
    assert plan.layers == 1
    assert len(plan.grid.parts) == parts


@cases("cores", [1, 4])
def test_the_threads_of_this_process_share_k_as_well(cores, monkeypatch):
    monkeypatch.setattr("twom_dist.run.client.CPU_COUNT", cores)
    a = da.zeros((20, 400), chunks=(20, 20), dtype=complex)
    stages = count_stages(td.herk(a))
    assert stages["twom-panel"] == cores if cores > 1 else not stages["twom-panel"]
    wide = da.zeros((80, 400), chunks=20, dtype=complex)
    assert "twom-reduce" not in count_stages(td.herk(wide))
