"""Running a job: the options of every routine, and the workers."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from .failures import refusing
from .following import follow
from .options import (
    apply_all,
    debug_option,
    given,
    json_option,
    parse_number,
    parse_size,
    scheduler_options,
    tile_option,
)
from .streams import say, show

if TYPE_CHECKING:
    from ..jobs import Job, JobSummary

sum_options = apply_all(
    click.option(
        "-o",
        "--output",
        required=True,
        metavar="C",
        help="File to write; data.h5::C names the member of an HDF5 or .npz file "
        "[default member: matrix].",
    ),
    click.option("--c", metavar="C0", help="File of the matrix to add, times --beta."),
    click.option(
        "--alpha",
        type=parse_number,
        metavar="NUMBER",
        default=1,
        help="Factor of the product, e.g. 2, -0.5 or 1+2j [default: 1].",
    ),
    click.option(
        "--beta",
        type=parse_number,
        metavar="NUMBER",
        help="Factor of C0; has to be given with --c.",
    ),
)

_worker_options = apply_all(
    scheduler_options,
    click.option(
        "--workers",
        type=click.IntRange(0),
        help="Worker processes to start; 0 uses threads of this process [default: one "
        "for each GPU, or as many as suit the cores and the memory].",
    ),
    click.option(
        "--threads-per-worker",
        type=click.IntRange(1),
        help="Threads per worker process [default: 1 on a GPU, else a share of the "
        "cores].",
    ),
    click.option(
        "--memory-limit",
        type=parse_size,
        metavar="BYTES",
        help="Memory limit of each worker, e.g. 4GiB [default: an equal share of this "
        "machine].",
    ),
    click.option(
        "--dashboard", is_flag=True, help="Serve dask's dashboard on port 8787."
    ),
    click.option(
        "--insecure",
        is_flag=True,
        help="Do not encrypt: every user of this machine can then run programs as you.",
    ),
)

run_options = apply_all(
    _worker_options,
    tile_option,
    click.option(
        "--overwrite",
        is_flag=True,
        help="Replace an existing output, and start anew. Without it the same command "
        "continues what was stopped.",
    ),
    click.option(
        "--refuse-missing",
        is_flag=True,
        help="Refuse zarr inputs that lack chunks, which are read as zeros otherwise.",
    ),
    click.option(
        "--verify",
        is_flag=True,
        help="Check the result by its product with a random vector before it gets its "
        "name; all matrices are read once more.",
    ),
    # What every run does; with --overwrite, it continues as well.
    click.option("--resume", is_flag=True, hidden=True),
    click.option(
        "--progress",
        is_flag=True,
        help="Show the progress bar even without a terminal, where a line a minute "
        "tells how far the job is.",
    ),
    click.option(
        "--quiet", is_flag=True, help="Print nothing but errors and what --json prints."
    ),
    json_option,
    debug_option,
)


# The arguments of a job; the other options are of its run.
_JOB = (
    "output overwrite refuse_missing verify alpha beta c accuracy num_moduli method "
    "engine"
)


def run_job(
    open_job: Callable[..., "Job"],
    *,
    tile: int | None,
    resume: bool,
    progress: bool,
    quiet: bool,
    as_json: bool,
    debug: bool,
    **others: Any,
) -> None:
    """Open a job, run it and print its summary."""
    asked = {name: others.pop(name) for name in _JOB.split()}
    with refusing():
        job = open_job(**given(**asked))
    bar = None if quiet else progress or sys.stderr.isatty()
    summary = _run(job, tile, resume, bar, debug, **others)
    if as_json:
        show(summary.to_json(), done=True)
    elif not quiet:
        show(summary, done=True)


def _run(
    job: "Job",
    tile: int | None,
    resume: bool,
    bar: bool | None,
    debug: bool,
    **options: Any,
) -> "JobSummary":
    """Find or start the workers, and run the job on them.

    `bar`: show a bar, or a line a minute; None shows neither.
    """
    from ..execute import current_cluster
    from ..jobs import compute, prepare, writing
    from . import workers

    tls_files = {name: options.pop(name) for name in [*options] if "tls" in name}
    scheduler, file = options.pop("scheduler"), options.pop("scheduler_file")
    timeout = options.pop("timeout")
    address = workers.find_scheduler(scheduler, file, timeout, **options)
    security = workers.choose_security(address, **tls_files)
    insecure = options.pop("insecure")
    with ExitStack() as stack:
        stack.enter_context(workers.quiet_logs(not debug))
        client, start = None, None
        if address is not None:
            client = stack.enter_context(workers.connect(address, timeout, security))
        else:
            with refusing():
                local = workers.choose_local_workers(**options, engine=job.engine)
            cluster = local.cluster
            if options["workers"] != 0:
                flags = options["dashboard"], insecure, debug
                start = partial(workers.start_workers, local, *flags)
                if local.gpus.visible:
                    # Asked what is free on them, and so started before the output.
                    client, start = stack.enter_context(start()), None
                elif job.engine == "auto":
                    job = job.with_engine("cpu")
        if client is not None:
            cluster = current_cluster()
        with refusing():
            run = prepare(job, cluster, tile, client=client)
        if start is not None:
            client = stack.enter_context(start())
        with refusing():
            stack.enter_context(writing(run, client, say))
        report = None
        if bar is not None:
            total, done = run.layout.num_computed, len(run.finished())
            following = follow(total, done, client, cluster.workers, bar=bar)
            report = stack.enter_context(following)
        return compute(run, client, report, click.get_current_context().obj)
