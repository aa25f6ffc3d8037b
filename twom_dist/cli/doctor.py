"""``twom-dist doctor``: what is right here, what is not, and what to do."""

import json
from contextlib import ExitStack
from dataclasses import asdict

import click

from .failures import DONE, EPILOG, FAILED, RefusedError, SentenceCommand
from .options import debug_option, json_option, scheduler_options
from .streams import show


@click.command(
    cls=SentenceCommand,
    short_help="Check this installation, its GPU and its workers.",
    epilog=EPILOG,
)
@scheduler_options
@json_option
@debug_option
@click.pass_context
def doctor(
    ctx: click.Context,
    /,
    scheduler: str | None,
    scheduler_file: str | None,
    timeout: float,
    as_json: bool,
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
    show(json.dumps({"ok": report.ok, **asdict(report)}) if as_json else report)
    ctx.exit(DONE if report.ok else FAILED)
