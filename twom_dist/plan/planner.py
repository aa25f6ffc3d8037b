"""Planning: a plan from tiles and workers, refused if it does not fit."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from dask.utils import format_bytes

from ..config import setting
from ..errors import MemoryLimitError
from ..tiles.dask.placement.grids import LITTLE
from ..tiles.dask.placement.triangle import TriangleMap
from ..tiles.grid import Chunks, Grid, cut_inner, cut_strips
from ..tiles.spec import Spec
from .chunks import SMALLEST_TILE
from .cluster import Cluster
from .fitting import fit_memory, fit_streamed, fit_sweep
from .footprint import Placement, predict_memory
from .record import Plan
from .show import name_count
from .split import Split, choose_splits, needed_rows
from .sweeps import cut_first, cut_sweeps, tiles_of_panel

# Encoded tiles that a CPU worker of limited memory keeps, as a share of its inputs and
# results. 3072^3 in tiles of 512 took 1.2 times the memory of ``@`` on two workers, and
# 1.4 times with 0.6, for as many tiles encoded; with 0.25 nearly twice as many are
# (docs/decisions/0028-inputs-are-made-again.md).
KEPT_SHARE = 0.45
# Workers whose tiles of a row one of them may analyse: those of a host.
GATHERED = 8


def make_plan(
    spec: Spec,
    chunks: tuple[Chunks, Chunks, Chunks],
    cluster: Cluster,
    *,
    job: bool = False,
    streams: bool = False,
    leaving: bool = False,
) -> Plan:
    """Plan a product of known tiles: as it fits, else as it takes least memory.

    `chunks`: sizes of the tiles along m, n and k, equal along m and n for updates;
    `job`, `streams`: as in `Plan`; `leaving`: whether tiles of C leave once made.
    """
    plans, fit = list[Plan](), list[Plan]()
    splits = choose_splits(spec, chunks, cluster, streams=streams)
    last, on_device = None, spec.engine == "cuda" and not streams
    # Rows are analysed whole, if there is room for their tiles.
    for split, whole in product(splits, (True, False) if on_device else (False,)):
        work = LITTLE * splits[0].work
        if fit and (split.layers > fit[0].layers or split.work > work):
            continue
        grid = _cut(spec, chunks, split, cluster, streams)
        if split is last or (whole and not _is_analysed_whole(grid, spec, cluster)):
            continue
        grid = replace(grid, strips=((0, grid.kt),)) if whole else grid
        # The panels of a part follow one another.
        chains = max(map(len, grid.layers)) * spec.routine.count_cells(grid.mt, grid.nt)
        threads = min(cluster.threads, chains)
        predict = partial(
            predict_memory,
            *(grid, spec, split.placement, threads),
            job=job,
            streams=streams,
        )
        sweeps = grid.sweeps
        if streams and not job:
            share = grid, spec, split.placement, cluster, leaving
            fitted, sweeps = fit_streamed(predict, *share, threads)
        elif on_device and len(grid.panels) > 1:
            fitted, grid = fit_sweep(
                grid, spec, split.placement, cluster, leaving, threads, job
            )
        else:
            most = 0 if streams else cluster.memory.cache_bytes
            if not job and cluster.memory.kind == "product" and cluster.memory.limit:
                held = predict(0)
                most = min(most, int(KEPT_SHARE * (held.inputs + held.outputs)))
            fitted = fit_memory(predict, cluster, most, leaving)
        if any(fitted.sweep):
            sweeps = cut_sweeps(grid, spec, split.placement, fitted.sweep)
        grid = cut_first(replace(grid, sweeps=sweeps), spec)
        idle, worker_grid, held_fraction = _share(grid, split, cluster.workers)
        plan = Plan(
            spec=replace(spec, cache_bytes=fitted.kept or 0, sweep=fitted.sweep),
            grid=grid,
            cluster=cluster,
            memory=fitted.memory,
            job=job,
            streams=streams,
            bytes_moved=split.moved,
            bytes_between_hosts=split.between,
            idle_workers=idle,
            worker_grid=worker_grid,
            held_fraction=held_fraction,
            cramped=fitted.kept != fitted.wanted,
        )
        if not plan.fits(leaving=leaving):
            plans.append(plan)
        elif plan.grid.sweeps and not streams:
            fit.append(plan)
            last = split
        elif not fit:
            return plan
    if not fit:
        return min(plans, key=lambda plan: plan.memory.total)
    # The scheduler handles one task after another; fewer layers may have larger sweeps.
    return min(fit, key=lambda x: x.num_tasks)


def _cut(
    spec: Spec,
    chunks: tuple[Chunks, Chunks, Chunks],
    split: Split,
    cluster: Cluster,
    streams: bool,
) -> Grid:
    """Cut k into parts and panels, whose tiles a task may hold."""
    m, n, k = chunks
    per_tile = max(1, (max(m) + max(n)) * max(k) * spec.input_itemsize)
    panel_bytes = cluster.memory.panel_bytes(cluster.threads)
    most = len(k) if streams else max(1, panel_bytes // per_tile)
    if spec.engine == "cuda" and not streams and setting("panel-bytes") is None:
        most = min(most, tiles_of_panel(max(m), max(n), max(k)))
    layers = cut_inner(len(k), split.layers, split.parts, most)
    placement = None if streams else split.placement
    return share_look(Grid(m, n, k, layers), spec, cluster, placement)


def _is_analysed_whole(grid: Grid, spec: Spec, cluster: Cluster) -> bool:
    """Tell whether a worker may analyse rows of tiles along all of k.

    Their largest exponents are no task's own then, and no strips have to be added; but
    the worker receives tiles of others, on its host as far as possible.
    """
    lines = grid.nt if spec.same_operand else grid.mt + grid.nt
    few = cluster.workers <= GATHERED * lines
    few = few and len(grid.layers) == 1 < len(grid.strips)
    return few and len(grid.panels) > 1 and not (spec.native or spec.exact)


def share_look(
    grid: Grid, spec: Spec, cluster: Cluster, placement: Placement | None = None
) -> Grid:
    """Return the same, cut for the analysis: a task and a block of pairs a thread.

    `placement`: of a layer of workers that hold the inputs, or will. Rows whose tiles
    belong to the same workers are analysed together then.
    """
    lines = grid.nt if spec.same_operand else grid.mt + grid.nt
    # Threads of a worker share its GPU.
    slots = cluster.workers * (1 if spec.engine == "cuda" else cluster.threads)
    ends = grid.panels
    if spec.engine == "cuda":
        # Panels are short there, and chunks on a device are no tasks' own.
        ends = tuple((x[0][0][0], x[-1][-1][1]) for x in grid.layers)
    each = -(-slots // (lines * len(ends)))
    strips = cut_strips(ends, -(-max(hi - lo for lo, hi in ends) // each))
    # Without a look, rows that nobody asks for are not measured.
    if spec.looks and placement is not None:
        wanted = -(-slots // (len(strips) * len(spec.sides)))
        both = (_group_rows(x, wanted) for x in placement.needs(grid.mt, grid.nt))
        grid = replace(grid, groups=tuple(both))
    if spec.data_driven:
        grid = replace(grid, pair_block=_share_pairs(grid, spec, slots))
    return replace(grid, strips=strips)


def _group_rows(needs: Sequence[Hashable], wanted: int) -> tuple[int, ...]:
    """Return groups of rows of tiles that are needed alike, as many as are wanted."""
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for i, need in enumerate(needs):
        alike[need].append(i)
    found, count = [0] * len(needs), 0
    for own in alike.values():
        parts = min(len(own), -(-len(own) * wanted // len(needs)))
        for n, i in enumerate(own):
            found[i] = count + n % parts
        count += parts
    return tuple(found)


def _share_pairs(grid: Grid, spec: Spec, slots: int) -> tuple[int, int]:
    """Choose blocks of pairs, one for each slot of a layer, of the fewest edges."""
    count = -(-slots // len(grid.layers))
    if spec.pair_routine.triangle:
        # Half of them have no pairs.
        count *= 2
    count = min(count, grid.mt * grid.nt)
    cuts = ((x, min(grid.nt, -(-count // x))) for x in range(1, grid.mt + 1))
    found = [
        (x * y, -(-grid.mt // x), -(-grid.nt // y)) for x, y in cuts if x * y >= count
    ]
    _, rows, columns = min(found, key=lambda x: x[0] * (x[1] + x[2]))
    return rows, columns


def _share(
    grid: Grid, split: Split, workers: int
) -> tuple[int, tuple[int, int, int] | None, float | None]:
    """Return the idle workers, their grid, and the share of rows that one holds."""
    placement, layers = split.placement, len(grid.layers)
    if not isinstance(placement, TriangleMap):
        used = min(placement.pr, grid.mt) * min(placement.pc, grid.nt)
        return workers - layers * used, (placement.pr, placement.pc, layers), None
    held, n = needed_rows(placement, grid.n), grid.shape[1]
    return workers - layers * len(held), None, max(held) / n if n else 0.0


def check_fit(plan: Plan, *, leaving: bool = False) -> Plan:
    """Return a plan that the workers have room for; refuse others, with what would do.

    `leaving`: whether tiles of C leave as they are made.
    """
    if plan.fits(leaving=leaving):
        return plan
    memory, budget = plan.memory, plan.cluster.memory
    if leaving:
        memory = replace(memory, outputs=memory.leaving)
    assert budget.limit is not None
    assert budget.tile_bytes is not None
    room = "no room" if budget.tile_bytes == 1 else format_bytes(budget.tile_bytes)
    most, acts = budget.most_bytes, "spills" if budget.kind == "job" else "pauses"
    taken = f"the process takes {format_bytes(budget.taken_bytes)}"
    taken = f" (dask {acts} at {format_bytes(most)}, and {taken})"
    holder = "worker"
    if budget.kind == "device":
        holder, taken = "device", ""
    have = f"{holder}s of {{}} have"
    fullest = f"the fullest of {name_count(plan.cluster.workers, holder)}"
    if budget.kind == "machine":
        have, fullest, taken = "this machine of {} has", "the product", ""
    problem = (
        f"not enough memory: {have.format(format_bytes(budget.limit))} {room} for "
        f"tiles{taken}, and {fullest} needs "
        f"{format_bytes(memory.total)} ({format_bytes(memory.inputs)} for inputs, "
        f"{format_bytes(memory.outputs)} for results, "
        f"{format_bytes(memory.temporaries)} inside tasks)"
    )
    least = budget.least_limit(memory.total) // 2**20
    on_machine = budget.kind == "machine"
    who = "Take a machine of" if on_machine else "Give each"
    ways = [f"{who} at least {least} MiB"]
    # What a product of dask arrays holds stays; all else shrinks with the tiles' sides.
    held = 0 if plan.streams or plan.job else memory.inputs
    held += 0 if leaving or plan.job else memory.outputs
    side = max(plan.tile_shape)
    rest = (memory.total - held) * SMALLEST_TILE // side
    if side > SMALLEST_TILE and held + rest < budget.tile_bytes:
        ways.append(f"use {'tiles' if plan.job else 'chunks'} smaller than {side}")
    # Nothing inside of tasks goes to disk.
    if budget.kind == "product" and memory.temporaries < budget.tile_bytes // 2:
        ways.append("let dask spill (the setting twom-dist.refuse-memory: false)")
    if on_machine:
        ways.append("try it all the same (twom-dist.refuse-memory: false)")
    error = MemoryLimitError(problem, ", or ".join(ways), "memory")
    error.needed = memory.total
    raise error
