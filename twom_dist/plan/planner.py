"""Planning: tiles and workers make a plan, or an error says why they cannot."""

from dataclasses import replace
from typing import NamedTuple

from ..errors import MemoryLimitError
from ..tiles.grid import Chunks, Grid, group_panels
from ..tiles.placement.grids import choose_grid, summa_bytes
from ..tiles.placement.triangle import TriangleMap, triangle_map
from ..tiles.spec import SIDES, Spec
from .cluster import Cluster
from .footprint import Placement, WorkerMemory, predict_memory
from .record import Plan


def make_plan(
    spec: Spec,
    chunks: tuple[Chunks, Chunks, Chunks],
    cluster: Cluster,
    *,
    mirrors: bool = True,
) -> Plan:
    """Plan a product of known tiles, or refuse one that a worker could not hold.

    `chunks`: sizes of the tiles along m, n and k, equal along m and n for updates;
    `mirrors`: whether the tiles of an update's other triangle are made, too.
    """
    m, n, k = chunks
    panel_bytes = cluster.memory.panel_bytes(cluster.threads)
    panels = group_panels(k, max(m), max(n), spec.input_itemsize, panel_bytes)
    grid = Grid(m, n, k, panels)
    placement = _place(grid, spec, cluster.workers)
    memory, cache_bytes = _fit_memory(grid, spec, placement, cluster, mirrors)
    return Plan(
        spec=replace(spec, cache_bytes=cache_bytes),
        grid=grid,
        cluster=cluster,
        memory=memory,
        mirrors=mirrors,
        **_traffic(grid, spec, placement, cluster.workers)._asdict(),
    )


def _place(grid: Grid, spec: Spec, workers: int) -> Placement:
    if spec.routine.triangle:
        return triangle_map(grid.nt, workers)
    return choose_grid(workers, grid.mt, grid.nt, *_input_bytes(grid, spec))


def _input_bytes(grid: Grid, spec: Spec) -> tuple[int, int]:
    """Return the bytes of op(A) and op(B) that are read."""
    m, n, k = grid.shape
    left, right = (spec.tile_dtype(side).itemsize for side in SIDES)
    return (0, 0) if spec.empty else (m * k * left, k * n * right)


def _fit_memory(
    grid: Grid, spec: Spec, placement: Placement, cluster: Cluster, mirrors: bool
) -> tuple[WorkerMemory, int]:
    """Predict the bytes on the fullest worker, and those of encoded tiles it keeps.

    Encoded tiles take only memory that is free otherwise: they can be made again.
    """
    # The panels of a tile run one after the other.
    threads = min(cluster.threads, spec.routine.count_cells(grid.mt, grid.nt))

    def predict(cache_bytes: int) -> WorkerMemory:
        tasks = threads, cache_bytes
        return predict_memory(grid, spec, placement, *tasks, mirrors=mirrors)

    budget = cluster.memory
    usable, cache_bytes = budget.tile_bytes, budget.cache_bytes
    memory = predict(cache_bytes)
    if usable is None or memory.total <= usable:
        return memory, cache_bytes
    least = predict(0)
    if least.total <= usable:
        return predict(usable - least.total), usable - least.total
    raise MemoryLimitError(*_describe_need(least, cluster), "memory")


def _describe_need(least: WorkerMemory, cluster: Cluster) -> tuple[str, str]:
    """Say how much memory is missing, and which changes would help."""
    from dask.utils import format_bytes

    budget = cluster.memory
    assert budget.limit is not None
    assert budget.tile_bytes is not None
    room = "no room" if budget.tile_bytes == 1 else format_bytes(budget.tile_bytes)
    taken = f" (the process takes {format_bytes(budget.taken_bytes)})"
    holders = "devices" if budget.kind == "device" else "workers"
    problem = (
        f"not enough memory: {holders} of {format_bytes(budget.limit)} have {room} for "
        f"tiles{taken if budget.kind == 'job' else ''}, and the fullest of "
        f"{cluster.workers} needs {format_bytes(least.total)} "
        f"({format_bytes(least.inputs)} for inputs, {format_bytes(least.outputs)} for "
        f"results, {format_bytes(least.temporaries)} inside tasks)"
    )
    ways = [f"Give each at least {budget.least_limit(least.total) // 2**20} MiB"]
    # A job is refused only if its smallest wave does not fit.
    if not budget.stretched:
        ways.append("use more workers or smaller chunks")
    elif cluster.workers > 1:
        home = "GPU" if budget.kind == "device" else "machine"
        ways.append(f"start fewer workers on each {home}")
    if budget.stretched and budget.tile_bytes > 1:
        ways.append("use smaller tiles")
    return problem, ", or ".join(ways)


class _Traffic(NamedTuple):
    bytes_moved: int
    idle_workers: int
    worker_grid: tuple[int, int] | None
    held_fraction: float | None


def _traffic(grid: Grid, spec: Spec, placement: Placement, workers: int) -> _Traffic:
    """Count the bytes that move if each row or column starts where it is needed."""
    mt, nt = grid.mt, grid.nt
    if not isinstance(placement, TriangleMap):
        moved = summa_bytes(placement, mt, nt, *_input_bytes(grid, spec))
        idle = workers - min(placement.pr, mt) * min(placement.pc, nt)
        return _Traffic(moved, idle, (placement.pr, placement.pc), None)
    n = grid.shape[1]
    held = [
        sum(grid.n[i] for i in placement.rows_of(slot))
        for slot in set(placement.slots.values())
    ]
    fraction = max(held) / n if n else 0.0
    a_bytes = _input_bytes(grid, spec)[0] * spec.routine.matrices
    moved = (sum(held) - n) * a_bytes // max(n, 1)
    return _Traffic(moved, workers - len(held), None, fraction)
