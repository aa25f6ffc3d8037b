"""The workers that read the inputs of a product that comes in a later graph."""

from collections import defaultdict

from ..grid import Grid
from ..interpreter import Line
from ..spec import SIDES, Spec
from .grids import WorkerGrid
from .homes import choose_homes
from .triangle import TriangleMap

# Annotation of such tasks: the address of the worker.
READER = "twom-reader"


def choose_readers(
    grid: Grid, spec: Spec, placement: WorkerGrid | TriangleMap, workers: list[str]
) -> dict[tuple[Line, int], str]:
    """Choose a worker for each tile, by its row and step, that will multiply it.

    Each strip is looked at by one task, and has one worker. `placement`: of a layer of
    workers, as `seating` will choose it where tiles lie so.
    """
    own = max(1, len(workers) // len(grid.layers))
    seats: dict[tuple[Line, int], set[str]] = defaultdict(set)
    for layer in range(len(grid.layers)):
        for cell in spec.routine.cells(grid.mt, grid.nt, spec.uplo):
            slot = layer * own + placement.slot(*cell)
            for pair in spec.routine.pairs(*cell):
                for side, i in zip(SIDES, pair, strict=True):
                    worker = workers[slot % len(workers)]
                    seats[(spec.own(side), i), layer].add(worker)
    layers = {
        s: n
        for n, parts in enumerate(grid.layers)
        for part in parts
        for lo, hi in part
        for s in range(lo, hi)
    }
    lines = dict.fromkeys(line for line, _ in seats)
    groups = [[(x, s) for s in range(*strip)] for x in lines for strip in grid.strips]
    needed = {
        tile: seats[tile[0], layers[tile[1]]] for group in groups for tile in group
    }
    return choose_homes(groups, needed, dict.fromkeys(needed, ()))
