"""Rows of tiles and the workers that need them, of a plan."""

from collections import defaultdict

from twom_dist.tiles.dask.placement.grids import WorkerGrid
from twom_dist.tiles.dask.placement.triangle import triangle_map
from twom_dist.tiles.spec import SIDES


def list_needed(plan):
    """List the slots of a layer that need each row of tiles, by its side and number."""
    grid, spec, needed = plan.grid, plan.spec, defaultdict(set)
    if spec.routine.triangle:
        own = plan.cluster.workers // len(grid.layers)
        placement = triangle_map(grid.nt, max(1, own))
    else:
        placement = WorkerGrid(*plan.worker_grid[:2])
    for cell in spec.routine.cells(grid.mt, grid.nt):
        for pair in spec.routine.pairs(*cell):
            for side, i in zip(SIDES, pair, strict=True):
                needed[spec.side_of(side), i].add(placement.slot(*cell))
    return needed
