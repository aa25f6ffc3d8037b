"""Plans of jobs on files: their first wave, and how many there are."""

from bisect import bisect_left
from dataclasses import replace
from functools import partial
from typing import Any

from ..jobs import budget_for_job
from ..jobs.driver import find_workers
from ..jobs.gpus import choose_engine_and_budget
from ..plan import Cluster, Plan, find_chunks, lay_out
from ..problem.matrices import check_single
from ..problem.matrices import outline as describe
from ..problem.problem import Problem
from ..run.advice import advise_method, advise_op
from ..store import StoredMatrix

# Times that the memory of workers is doubled to find what would cut no chunk, and the
# steps of each time: one is 2 %.
_DOUBLINGS, _STEPS = 8, 32


def plan_job(
    posed: Problem, chunks: Any, cluster: Cluster | None = None, client: Any = None
) -> Plan:
    """Plan the first wave of a job, laid out as the job would be.

    `cluster`: workers that are described; else those of the client, or this process.
    """
    a, b = (
        x if isinstance(x, StoredMatrix) else describe(check_single(x, name))
        for x, name in ((posed.a, "A"), (posed.b, "B"))
    )
    if cluster is None:
        client, cluster = find_workers(client)
        found = choose_engine_and_budget(posed.spec.engine, cluster, client)
        engine, cluster = found
        posed = posed.with_engine(engine)
    elif posed.spec.engine != "cuda":
        # A job leaves room for the processes.
        cluster = budget_for_job(cluster)
    stored = find_chunks(posed.spec, a, b)
    layout = lay_out(posed.spec, posed.shape, cluster, tile=chunks, chunks=stored)
    first = layout.plan(layout.waves[0], cluster)
    cuts = layout.read_chunks(stored)
    uncut = _find_uncut(posed, cluster, stored) if cuts > 1 and chunks is None else 0
    waves = len(layout.waves)
    notes = [*advise_op(posed), *advise_method(posed, client)]
    if layout.num_computed == 1 and first.tiles[2] > 1:
        notes.append("C is one tile: a stopped job multiplies from the beginning")
    return replace(
        first,
        waves=waves,
        chunk_reads=cuts,
        uncut_bytes=uncut,
        notes=tuple(notes),
    )


def _find_uncut(posed: Problem, cluster: Cluster, stored: tuple[int, int, int]) -> int:
    """Find a memory limit with which tiles would cut no stored chunk; 0 if none would.

    Tiles cut some, too, so that every worker gets a few.
    """
    least = cluster.memory.limit
    if not least:
        return 0
    # Bisected, since a job of many small tiles may take seconds to lay out.
    limits = [int(least * 2 ** (n / _STEPS)) for n in range(1, _DOUBLINGS * _STEPS + 1)]
    cuts = partial(_cuts_chunks, posed, cluster, stored)
    found = bisect_left(limits, True, key=lambda limit: not cuts(limit))
    return 0 if found == len(limits) else -(-limits[found] // 2**20) * 2**20


def _cuts_chunks(
    posed: Problem, cluster: Cluster, stored: tuple[int, int, int], limit: int
) -> bool:
    larger = replace(cluster, memory=replace(cluster.memory, limit=limit))
    layout = lay_out(posed.spec, posed.shape, larger, chunks=stored)
    return layout.read_chunks(stored) > 1
