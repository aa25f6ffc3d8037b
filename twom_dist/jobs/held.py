"""Inputs that are read once: looked at, then multiplied."""

from collections.abc import Mapping
from typing import Any

from ..config import flag_setting
from ..plan import share_look
from ..run.client import list_workers
from ..tiles.interpreter import Line
from ..tiles.placement.grids import WorkerGrid
from ..tiles.placement.readers import choose_readers
from ..tiles.placement.triangle import TriangleMap, triangle_map
from .execution import persist
from .reading import EVERY, TilePair, read_inputs
from .run import Run


def hold_inputs(run: Run, client: Any) -> TilePair | None:
    """Have all of A and B read where they will be multiplied, if they fit there.

    Without a look each tile is read by the wave alone.
    """
    if not (run.layout.reads_once and run.layout.spec.looks):
        return None
    readers = None if client is None else _choose_readers(run, client)
    shape = run.layout.tile_shape
    inputs = read_inputs(run.job, shape, EVERY, EVERY, readers=readers)
    return TilePair(*persist(inputs, client, run.cluster.threads))


def release_inputs(held: TilePair | None, client: Any) -> None:
    """Have the workers forget inputs, whoever may still refer to them."""
    if held is not None and client is not None:
        from distributed import futures_of

        for future in futures_of([*held]):
            future.release()


def _choose_readers(run: Run, client: Any) -> Mapping[tuple[Line, int], str] | None:
    """Choose the workers that read tiles, or leave it to dask."""
    layout, spec, cluster = run.layout, run.layout.spec, run.cluster
    workers = sorted(x["address"] for x in list_workers(client))
    if not flag_setting("placement") or len(workers) < 2:
        return None
    (wave,) = layout.waves
    shape = layout.plan(wave, cluster).worker_grid
    if shape is None:
        own = max(1, len(workers) // len(layout.grid.layers))
        placement: WorkerGrid | TriangleMap = triangle_map(layout.grid.nt, own)
    else:
        placement = WorkerGrid(*shape[:2])
    grid = share_look(layout.grid, spec, cluster)
    return choose_readers(grid, spec, placement, workers)
