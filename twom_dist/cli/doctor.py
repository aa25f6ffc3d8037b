"""``twom-dist doctor``: what is right here, what is not, and what to do."""

from contextlib import ExitStack

import click

from .failures import RefusedError, SentenceCommand
from .options import debug_option

_EXIT_CODES = """\b
Exit codes:
  0    nothing failed; there may be warnings
  1    something failed
  2    wrong usage
"""


@click.command(
    cls=SentenceCommand,
    short_help="Check this installation, machine and cluster.",
    epilog=_EXIT_CODES,
)
@click.option("--scheduler", metavar="ADDRESS", help="Check the workers of this one.")
@click.option("--scheduler-file", metavar="FILE", help="Or of the one of this file.")
@click.option(
    "--tls-ca-file", metavar="FILE", help="The authority of an encrypted scheduler;"
)
@click.option("--tls-cert", metavar="FILE", help="our certificate;")
@click.option("--tls-key", metavar="FILE", help="its key, if in another file.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=10,
    show_default=True,
    help="Seconds to wait for the scheduler, and for its first worker.",
)
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
    """Check engines, packages, cores, memory, disk, GPUs and workers.

    One line for each: ok, warning or failure, what was found, and what to do.
    """
    from ..cluster import Report
    from ..cluster import doctor as examine
    from ..cluster.report import refused
    from . import workers

    address = workers.find_scheduler(scheduler, scheduler_file)
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
                unreachable = [refused("workers", error)]
        report = examine(client)
    report = Report((*report.findings, *unreachable))
    click.echo(report)
    ctx.exit(0 if report.ok else 1)
