"""``twom-dist doctor``: what is right here, what is not, and what to do."""

from contextlib import ExitStack

import click

from .failures import RefusedError, SentenceCommand
from .options import debug_option, scheduler_options

_EXIT_CODES = """\b
Exit codes:
  0    nothing failed (there may be warnings)
  1    a check failed
  2    wrong usage
"""


@click.command(
    cls=SentenceCommand,
    short_help="Check this installation, its GPU and its workers.",
    epilog=_EXIT_CODES,
)
@scheduler_options
@debug_option
@click.pass_context
def doctor(
    ctx: click.Context,
    /,
    scheduler: str | None,
    scheduler_file: str | None,
    timeout: float,
    debug: bool,
    **tls_files: str | None,
) -> None:
    """Check the engines, the GPU, dask-cuda and the workers of a scheduler.

    Prints one line for each finding: ok, warning or failure, what was found, and what
    to do about it.
    """
    from ..cluster import Finding, Report
    from ..cluster import doctor as examine
    from . import workers

    address = workers.find_scheduler(scheduler, scheduler_file, timeout)
    security = workers.choose_security(address, **tls_files)
    client, unreachable = None, []
    with ExitStack() as stack:
        stack.enter_context(workers.quiet_logs(not debug))
        if address is not None:
            try:
                client = stack.enter_context(
                    workers.connect(address, timeout, security)
                )
            except RefusedError as error:
                unreachable = [
                    Finding("workers", "failure", error.problem, error.remedy)
                ]
        report = examine(client)
    report = Report((*report.findings, *unreachable))
    click.echo(report)
    ctx.exit(0 if report.ok else 1)
