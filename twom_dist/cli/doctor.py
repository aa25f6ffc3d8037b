"""``twom-dist doctor``: what is right here, what is not, and what to do."""

import json
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import click

from ..errors import TwomError
from .failures import DONE, EPILOG, FAILED, show
from .options import COMMON_OPTIONS, SCHEDULER_OPTIONS


@click.command(
    params=[*SCHEDULER_OPTIONS, *COMMON_OPTIONS],
    short_help="Check this installation, its GPU and its workers.",
    epilog=EPILOG,
)
def doctor(as_json: bool, **scheduler: Any) -> None:
    """Check the engines, the GPU, dask-cuda and the workers of a scheduler.

    Prints one line for each finding: ok, warning or failure, what was found, and what
    to do about it.
    """
    from ..workers.diagnosis import Finding, Report
    from ..workers.diagnosis import doctor as examine
    from . import workers

    client, unreachable = None, []
    with ExitStack() as stack:
        try:
            client = stack.enter_context(workers.connect(**scheduler))
        except TwomError as error:
            if error.code not in ("no-scheduler", "no-workers"):
                raise
            found = Finding("workers", "failure", error.problem, error.remedy)
            unreachable = [found]
        report = Report((*examine(client).findings, *unreachable))
    show(json.dumps({"ok": report.ok, **asdict(report)}) if as_json else report)
    click.get_current_context().exit(DONE if report.ok else FAILED)
