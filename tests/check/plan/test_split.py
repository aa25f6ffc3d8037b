"""Grids of workers, m x n x k: nobody idle, and as little moved as any grid moves."""

from itertools import product

import dask.array as da

import twom_dist as td
from tests.support.cases import cases
from tests.support.machine import a_machine
from tests.support.stages import count_stages

SIZES = (10**4, 10**5, 10**6)
TILE = 5000
# Of complex128: bytes of an entry, and of the residues of one with 16 moduli.
ENTRY, RESIDUES = 16, 32
# Times the least work or traffic, which counts as little as well.
LITTLE = 1.1


def ceil(x, y):
    return -(-x // y)


def all_grids(m, n, k, workers):
    """Yield each grid, the work of its busiest worker, and the bytes that move."""
    mt, nt, kt = (ceil(size, TILE) for size in (m, n, k))
    for pr, pc in product(range(1, workers + 1), repeat=2):
        for pk in range(1, min(kt, workers // (pr * pc)) + 1):
            work = ceil(mt, pr) * ceil(nt, pc) * ceil(kt, pk)
            copies = (min(pc, nt) - 1) * m * k + (min(pr, mt) - 1) * k * n
            moved = copies * ENTRY + (pk - 1) * m * n * RESIDUES
            yield (pr, pc, pk), work, moved


@cases("workers", [4, 7, 16, 64])
@cases("m", SIZES)
@cases("n", SIZES)
@cases("k", SIZES)
def test_plans_move_as_little_as_the_best_grid(m, n, k, workers):
    given = {"chunks": TILE, "n_workers": workers, "num_moduli": 16}
    plan = td.plan(td.gemm, (m, k), (k, n), **given)
    pr, pc, pk = plan.worker_grid
    assert plan.layers == pk
    grids = {grid: rest for grid, *rest in all_grids(m, n, k, workers)}
    work, moved = grids[pr, pc, pk]
    assert plan.bytes_moved == moved
    assert work <= LITTLE**2 * min(other for other, _ in grids.values())
    assert moved <= LITTLE * min(t for other, t in grids.values() if other <= work)
    # Where C is small and k long nothing but residues moves; where k is short none do.
    if k >= 100 * max(m, n):
        assert pk >= workers / 4
    if max(m, n) >= 10 * k and pr * pc == workers:
        assert pk == 1


@cases("routine", [td.gemm, td.herk, td.syrk, td.her2k, td.syr2k])
@cases("workers", [2, 7, 8, 64])
def test_tall_matrices_leave_nobody_idle(routine, workers):
    shapes = [(480_000, 640)] * (1 if routine in (td.herk, td.syrk) else 2)
    op = "T" if routine in (td.syrk, td.syr2k) else "C"
    ops = {"op_a": "C"} if routine is td.gemm else {"op": op}
    plan = td.plan(routine, *shapes, n_workers=workers, **ops)
    # 235 tiles along k: of 64 workers 59 have 4, and nobody would be done earlier.
    layers = {64: 59}.get(workers, workers)
    assert (plan.layers, plan.idle_workers) == (layers, workers - layers)
    entries = 640 * 640 * plan.spec.system.num_products
    assert plan.bytes_moved == (layers - 1) * entries


@cases(
    ("m", "k", "n", "options", "layers", "idle"),
    [
        (20, 30, 10, {}, 3, 44),  # 2 x 1 x 3 tiles for 50 workers
        (20, 10, 10, {}, 1, 48),
        # These keep to one order.
        (20, 3000, 20, {"method": "blas"}, 1, 46),
        (20, 3000, 20, {"alpha": 0}, 1, 46),
    ],
)
def test_workers_beyond_all_tiles_are_idle(m, k, n, options, layers, idle):
    plan = td.plan(td.gemm, (m, k), (k, n), chunks=10, n_workers=50, **options)
    assert (plan.layers, plan.idle_workers) == (layers, idle)


@cases(("threads", "parts"), [(1, 1), (5, 1), (64, 20)])
def test_parts_are_for_threads_that_have_no_tiles_of_c(threads, parts):
    sizes = {"chunks": 100, "n_workers": 1, "threads_per_worker": threads}
    plan = td.plan(td.gemm, (300, 10_000), (10_000, 100), num_moduli=16, **sizes)
    assert plan.layers == 1
    assert len(plan.grid.parts) == parts
    with a_machine(cores=threads):  # and those of this process, without a client
        stages = count_stages(td.herk(da.zeros((20, 400), chunks=(20, 20))))
        wide = count_stages(td.herk(da.zeros((200, 400), chunks=20)))
    assert stages["twom-panel"] == (threads > 1) * min(threads, 20)
    assert "twom-reduce" not in wide
