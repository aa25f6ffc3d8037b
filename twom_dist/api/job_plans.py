"""Plans of jobs on files: their first wave, and how many there are."""

from dataclasses import replace
from typing import Any

from ..jobs import budget_for_job
from ..jobs.driver import find_workers
from ..jobs.resources import choose_engine_and_budget
from ..plan import Cluster, Plan, find_chunks, lay_out
from ..problem.matrices import check_single
from ..problem.matrices import outline as describe
from ..problem.problem import Problem
from ..run.advice import advise_method, advise_op
from ..store import StoredMatrix


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
    notes = [*advise_op(posed), *advise_method(posed)]
    if layout.num_computed == 1 and first.tiles[2] > 1:
        notes.append("C is one tile: a stopped job multiplies from the beginning")
    return replace(
        first,
        waves=len(layout.waves),
        chunk_reads=layout.read_chunks(stored),
        notes=tuple(notes),
    )
