"""``twom-dist status``: how far a job is, wherever it runs."""

import json
import time
from dataclasses import asdict
from typing import Any

import click

from .failures import DONE, EPILOG, FAILED, plain, show
from .options import COMMON_OPTIONS

_AGAIN = "the same call of multiply_files or update_files"


@click.command(
    params=[click.Argument(["output"], metavar="C"), *COMMON_OPTIONS],
    short_help="Tell how far a job is.",
    epilog=EPILOG,
)
def status(output: str, as_json: bool) -> None:
    """Tell how far the job is that makes C: tiles, speed, time left, what continues it.

    It may run in any process, on any host that sees the same files. The exit code is 0
    if C is finished, 1 if not, and 2 if no job has begun it.
    """
    from ..jobs.reports import find_status

    found = find_status(output)
    if as_json:
        show(json.dumps(asdict(found)))
    else:
        rows = _list_rows(found, time.time())
        show("\n".join(f"{name:<8}  {plain(text)}" for name, text in rows.items()))
    done = found.state == "finished"
    click.get_current_context().exit(DONE if done else FAILED)


def _list_rows(found: Any, now: float) -> dict[str, str]:
    from ..plan.show import show_seconds

    rows = {"output": found.path, "state": found.state}
    if found.state == "finished":
        if not found.routine:
            rows["state"] += ", or another program's: it has no record of a job"
        return rows
    running = found.state == "running"
    if running:
        rows["state"] += f" on {found.host}" if found.host else ""
        if found.since is not None:
            rows["state"] += f", for {show_seconds(max(0, now - found.since))}"
    if found.state == "unknown":
        rows["state"] = "not finished; without locks here, only new tiles show a run"
    if not found.tiles:
        return rows | {"tiles": "none yet: the job starts, or looks at its inputs"}
    if running and found.phase:
        rows["phase"] = found.phase
    rows["tiles"] = f"{found.done} of {found.tiles}"
    if found.last is not None:
        rows["tiles"] += f", the last {show_seconds(max(0, now - found.last))} ago"
    if found.tiles_per_second is not None:
        rows["speed"] = f"{60 * found.tiles_per_second:.3g} tiles a minute"
    multiplies = rows.get("phase", "multiplying") == "multiplying"
    if found.done == found.tiles and multiplies:
        rows["left"] = "the file itself is to be written"
    elif found.seconds_left is not None:
        left = show_seconds(found.seconds_left)
        rows["left"] = left if running else f"would take {left}"
    elif running:
        rows["left"] = "unknown before the first tile of this run"
    if not running:
        rows["continue"] = found.command or _AGAIN
    return rows
