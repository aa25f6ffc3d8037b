"""The memory of a plan: the largest sweeps, and what encoded tiles may take."""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import NamedTuple

from ..config import bytes_setting, setting
from ..tiles.grid import Grid
from ..tiles.spec import Spec
from .cluster import Cluster
from .footprint import Placement, WorkerMemory, predict_memory
from .sweeps import Sweep, Sweeps, cut_sweeps, list_sweeps, longer_panels, planes_bytes

# Sweeps that a thread takes in turn if tasks make their inputs: some threads may be
# slower. And what these may take, as a share of what tile by tile takes: the sums of a
# sweep take twice its tiles of C with 16 moduli.
SWEEPS_EACH, STREAMED_SHARE = 2, 1.5


class Fitted(NamedTuple):
    """Memory of a plan, bytes of encoded tiles that are kept, and wanted, and a sweep.

    `kept`: None if not even what has to be held fits.
    """

    memory: WorkerMemory
    kept: int | None
    wanted: int
    sweep: tuple[int, int] = (0, 0)


def fit_sweep(
    grid: Grid,
    spec: Spec,
    placement: Placement,
    cluster: Cluster,
    leaving: bool,
    threads: int,
    job: bool,
) -> tuple[Fitted, Grid]:
    """Choose the largest sweep whose sums and encoded tiles fit, or the smallest.

    Then the longest panels, of which it needs fewer.
    """
    own, longer = grid, [grid]
    if setting("panel-bytes") is None:
        *longer, own = longer_panels(grid)

    def fit(grid: Grid, sweep: Sweep) -> Fitted:
        # The next one is made while others are in use.
        most = planes_bytes(grid, spec, sweep.held(spec.routine.triangle) + 1)
        most = bytes_setting("cache-bytes", most)
        predict = partial(
            predict_memory, grid, spec, placement, threads, job=job, sweep=sweep
        )
        found = fit_memory(predict, cluster, most, leaving)
        return found._replace(sweep=(sweep.rows, sweep.columns))

    for sweep in list_sweeps(grid, spec, placement):
        fitted = fit(own, sweep)
        if fitted.kept == fitted.wanted:
            break
    for other in longer:
        found = fit(other, sweep)
        if found.kept == found.wanted:
            return found, other
    return fitted, own


def fit_streamed(
    predict: Callable[..., WorkerMemory],
    grid: Grid,
    spec: Spec,
    placement: Placement,
    cluster: Cluster,
    leaving: bool,
    threads: int,
) -> tuple[Fitted, Sweeps]:
    """Choose the largest sweep that fits, leaves threads enough, and is little more.

    A task makes, and encodes, each tile once for all tiles of C of its sweep.
    """
    alone, usable = fit_memory(predict, cluster, 0, leaving), cluster.memory.tile_bytes
    most = inf if usable is None else usable
    if not leaving:
        most = min(most, STREAMED_SHARE * alone.memory.total)
    for sweep in list_sweeps(grid, spec, placement):
        size = sweep.rows, sweep.columns
        found = cut_sweeps(grid, spec, placement, size, streams=True)
        memory = predict(0, sweep=sweep)
        need = memory.least if leaving else memory.total
        if max(map(len, found), default=0) < SWEEPS_EACH * threads or need > most:
            continue
        # Planes go with their tile; those of small ones are padded to twice the bytes.
        edges = 2 * threads * sweep.held(spec.routine.triangle)
        kept = planes_bytes(grid, spec, edges)
        own = tuple((x,) for worker in found for x in worker)
        return Fitted(memory, kept, kept), own
    return alone, ()


def fit_memory(
    predict: Callable[[int], WorkerMemory], cluster: Cluster, most: int, leaving: bool
) -> Fitted:
    """Predict the bytes on the fullest worker, and those of encoded tiles it keeps.

    Encoded tiles, which can be made again, take at most `most` of what is free then.
    """
    usable, memory = cluster.memory.tile_bytes, predict(most)

    def need(memory: WorkerMemory) -> int:
        return memory.least if leaving else memory.total

    if usable is None or need(memory) <= usable:
        return Fitted(memory, most, most)
    least = predict(0)
    room = usable - need(least)
    if room < 0:
        return Fitted(least, None, most)
    # Tiles of C that leave wait for their turn.
    room = min(most, room // 2 if leaving else room)
    return Fitted(predict(room), room, most)
