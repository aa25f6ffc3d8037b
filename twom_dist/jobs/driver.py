"""The driver of jobs on stored matrices: lay out, compute, write."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

from ..errors import ArgumentError, shown
from ..plan import Cluster
from ..tiles.interpreter import Findings
from ..typing import Cell
from ..workers.answers import require_answer
from ..workers.client import (
    check_client,
    current_client,
    current_cluster,
    ensure_plugins,
)
from ..workers.local import choose_workers
from .execution import compute_value, compute_wave
from .job import Job, check_unchanged
from .manifest import KEPT, LOOKING, MULTIPLYING, WRITING, explain_job
from .operands import persist_inputs, release_inputs
from .reports import JobSummary, Progress, count_operations
from .run import Run, begin
from .tiles import check_tiles, look_at_whole, make_tasks
from .watchdog import report_lost_scheduler

Report = Callable[[Progress], None]


def run_job(
    job: Job, client: Any = None, tile: int | None = None, progress: Any = None
) -> JobSummary:
    """Start or continue the output of a job on a client's workers, or in threads."""
    if progress is not None and not callable(progress):
        problem = f"progress={shown(progress)} cannot be called"
        raise ArgumentError(problem, "Give a function of a Progress", "progress")
    client, cluster = find_workers(client)
    # The second one has what is kept noted on its own error.
    with (
        report_lost_scheduler(client),
        begin(job, cluster, tile, client=client) as run,
        report_lost_scheduler(client),
    ):
        return compute(run, client, progress)


def find_workers(client: Any = None) -> tuple[Any, Cluster]:
    """Return the client of a job and its workers; None and this process without."""
    client = current_client() if client is None else client
    check_client(client)
    if client is None:
        return None, choose_workers(n_workers=1)
    with report_lost_scheduler(client), client.as_current():
        require_answer(client)
        return client, current_cluster()


def compute(
    run: Run,
    client: Any = None,
    progress: Report | None = None,
    commit: Callable[[], None] = lambda: None,
    enter: Callable[[str], None] = lambda _: None,
) -> JobSummary:
    """Compute and write every tile of a run, then give the output its name.

    `enter` is called with each phase as it begins, `commit` just before the naming: a
    signal handler that raises from then on would take a result for a failure.
    """
    start = perf_counter()
    enter(KEPT)
    kept = sorted(run.output.list_finished())
    if kept:
        tasks = check_tiles(run.output, kept)
        compute_wave(tasks, kept, client, run.cluster.threads, lambda *_: None)
    earlier = run.list_finished()
    damaged = len(kept) - len(run.output.list_finished())
    count = _Count(run, progress, len(earlier))
    with nullcontext() if client is None else client.as_current():
        ensure_plugins()
        run, found = _multiply(run, client, earlier, count, enter)
        job, layout = run.job, run.layout
        check_unchanged(job, run.manifest["stamps"])
    enter(WRITING)
    run.finish(commit)
    return JobSummary(
        path=str(run.place.location),
        routine=job.routine,
        shape=job.shape,
        dtype=job.dtype,
        tiles=(layout.grid.mt, layout.grid.nt, layout.grid.kt),
        tile_shape=layout.tile_shape,
        waves=len(layout.waves),
        method=job.spec.method,
        num_moduli=len(job.spec.moduli),
        engine=job.engine,
        seconds=perf_counter() - start,
        resumed=len(earlier),
        operations=count.operations,
        damaged=damaged,
        missing=run.missing,
        explanation=explain_job(job, found),
    )


@dataclass
class _Count:
    """The tiles that are written, each of which is reported."""

    run: Run
    report: Report | None
    done: int
    operations: int = 0
    begun: float = 0  # when the first product began, after the data were checked

    def add(self, i: int, j: int) -> None:
        job, layout = self.run.job, self.run.layout
        # An off-diagonal tile of an update counts in both triangles.
        tiles = 2 if job.spec.routine.triangle and i != j else 1
        shape = layout.grid.m[i], layout.grid.n[j], job.shape[2]
        self.operations += tiles * count_operations(*shape, job.dtype, job.routine)
        self.done += 1
        if self.report is not None:
            total, seconds = layout.num_computed, perf_counter() - self.begun
            self.report(Progress(self.done, total, self.operations, seconds))


def _multiply(
    run: Run,
    client: Any,
    earlier: set[Cell],
    count: _Count,
    enter: Callable[[str], None],
) -> tuple[Run, Findings]:
    """Check the data, then compute and write the tiles that are not there yet."""
    threads, inputs = run.cluster.threads, None
    try:
        found = run.look
        if found is None:
            enter(LOOKING if run.job.spec.looks else MULTIPLYING)
            inputs = persist_inputs(run, client)
            take = partial(compute_value, client=client, threads=threads)
            found = look_at_whole(run, take, inputs)
        run = run.settle(found)
        if not run.layout.reads_once:
            # More moduli than planned leave less room.
            release_inputs(inputs, client)
            inputs = None
        enter(MULTIPLYING)
        count.begun = perf_counter()
        for wave in run.layout.waves:
            cells = [cell for cell in wave.cells if cell not in earlier]
            if cells:
                tasks = make_tasks(run, wave, cells, found, inputs)
                compute_wave(tasks, cells, client, threads, count.add)
    finally:
        release_inputs(inputs, client)
    return run, found
