"""Running a job: the options of every routine, and the workers."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from .bar import progress_bar
from .failures import name_options, refusing
from .options import (
    apply_all,
    debug_option,
    given,
    parse_number,
    parse_size,
    scheduler_options,
)

if TYPE_CHECKING:
    from ..jobs import Job, JobSummary

sum_options = apply_all(
    click.option(
        "-o",
        "--output",
        required=True,
        metavar="C",
        help="File to make; without a member HDF5 and .npz call it matrix.",
    ),
    click.option("--c", metavar="C0", help="Matrix to add, times --beta."),
    click.option(
        "--alpha", type=parse_number, metavar="NUMBER", default=1, help="Default: 1."
    ),
    click.option(
        "--beta", type=parse_number, metavar="NUMBER", default=0, help="Default: 0."
    ),
)

_worker_options = apply_all(
    scheduler_options,
    click.option(
        "--workers",
        type=click.IntRange(0),
        help="Start so many worker processes (default: one per GPU, or per core); 0: "
        "use threads.",
    ),
    click.option(
        "--threads-per-worker", type=click.IntRange(1), help="Default: 1; all if alone."
    ),
    click.option(
        "--memory-limit",
        type=parse_size,
        metavar="BYTES",
        help="Of each worker, such as 4GiB.",
    ),
    click.option("--dashboard", is_flag=True, help="Serve dask's, on port 8787."),
)

run_options = apply_all(
    _worker_options,
    click.option("--tile", type=click.IntRange(1), help="Side of a tile."),
    click.option(
        "--overwrite",
        is_flag=True,
        help="Replace an output that is there; discard an unfinished one.",
    ),
    click.option(
        "--resume", is_flag=True, help="Continue what a stopped run has left, if any."
    ),
    click.option(
        "--progress", is_flag=True, help="Show the bar without a terminal too."
    ),
    click.option("--quiet", is_flag=True, help="Say nothing but errors."),
    debug_option,
)


def run_job(
    open_job: Callable[..., "Job"],
    *,
    output: str,
    c: str | None,
    alpha: complex,
    beta: complex,
    tile: int | None,
    overwrite: bool,
    resume: bool,
    progress: bool,
    quiet: bool,
    debug: bool,
    **others: Any,
) -> None:
    """Open a job, run it and say what came of it."""
    names = ("accuracy", "num_moduli", "method", "scaling", "engine")
    options = given(**{name: others.pop(name) for name in names})
    with refusing():
        if c is not None and beta == 0:
            raise TypeError("--c given without --beta; give --beta 1 to add it")
        if c is None and beta != 0:
            raise TypeError("--beta given without --c; name C0, or leave --beta out")
        job = open_job(
            output=output,
            overwrite=overwrite,
            alpha=alpha,
            beta=beta,
            c=c,
            **options,
        )
    bar = not quiet and (progress or sys.stderr.isatty())
    summary = _run(job, tile, resume, quiet, bar, debug, **others)
    if not quiet:
        click.echo(summary)


def _run(
    job: "Job",
    tile: int | None,
    resume: bool,
    quiet: bool,
    bar: bool,
    debug: bool,
    *,
    scheduler: str | None,
    scheduler_file: str | None,
    tls_ca_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    timeout: float,
    **local_options: Any,
) -> "JobSummary":
    """Find or start the workers, and the output before those that must be started."""
    from ..execute import current_cluster
    from ..jobs import begin, compute
    from . import workers

    address = workers.find_scheduler(
        scheduler, scheduler_file, timeout, **local_options
    )
    security = workers.choose_security(
        address, tls_ca_file=tls_ca_file, tls_cert=tls_cert, tls_key=tls_key
    )
    with ExitStack() as stack:
        stack.enter_context(workers.quiet_logs(not debug))
        client, local = None, None
        if address is None:
            with refusing():
                local = workers.choose_local_workers(**local_options, engine=job.engine)
                if local.on_gpus:
                    # Asked what is free on them, and so started before the output.
                    client = stack.enter_context(workers.start_workers(local, debug))
            job = job.with_engine(local.engine)
            cluster = local.cluster if client is None else current_cluster()
        else:
            client = stack.enter_context(workers.connect(address, timeout, security))
            cluster = current_cluster()
        with refusing():
            run = begin(job, cluster, tile, resume=resume, client=client)
        with ExitStack() as unfinished:
            unfinished.callback(run.abandon)
            if client is None and local is not None and local.workers > 0:
                client = stack.enter_context(workers.start_workers(local, debug))
            if not quiet and (discarded := run.describe_discarded()):
                click.echo(f"twom-dist: {discarded}", err=True)
            # From here on the run decides: a result that cannot be put in place stays.
            unfinished.pop_all()
        report = stack.enter_context(progress_bar(bar, run.layout.num_computed))
        try:
            return compute(run, client, report)
        except BaseException:
            # Before it is said why the job was stopped.
            if kept := run.describe_kept():
                click.echo(f"twom-dist: {name_options(kept)}", err=True)
            raise
