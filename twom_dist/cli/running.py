"""Running a job: its workers, how far it is, and its summary."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from .failures import begin_work
from .following import follow
from .streams import say, show

if TYPE_CHECKING:
    from ..jobs import Job


def run_job(
    job: "Job",
    *,
    tile: int | None,
    quiet: bool,
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a job on workers that are there, or start some, and print its summary."""
    from ..execute import current_cluster
    from ..jobs import compute, prepare, writing
    from . import workers

    with ExitStack() as stack:
        client = stack.enter_context(workers.connect(**options))
        if client is None:
            chosen = workers.choose_local_workers(job.engine, **options)
            start = workers.start_workers(chosen, **options)
            if chosen.gpus.visible:
                # Asked what is free on them, and so started before the output.
                client = stack.enter_context(start)
            elif options["workers"] != 0 and job.engine == "auto":
                job = job.with_engine("cpu")
        cluster = chosen.cluster if client is None else current_cluster()
        run = prepare(job, cluster, tile, client=client)
        if client is None:
            client = stack.enter_context(start)
        stack.enter_context(writing(run, client, say))
        report = None
        if not quiet:
            total, done = run.layout.num_computed, len(run.finished())
            report = stack.enter_context(follow(total, done, client, cluster.workers))
        summary = compute(run, client, report, begin_work())
    if as_json:
        show(summary.to_json(), done=True)
    elif not quiet:
        text = f"{summary}\n{summary.explanation}" if verbose else summary
        show(text, done=True)
