"""``twom-dist clean``: what stopped jobs have left, and removing it."""

import json
import os
import time
from contextlib import suppress
from typing import Any

import click
from dask.utils import format_bytes

from ..errors import StoreError
from .failures import DONE, EPILOG, FAILED, plain, show
from .options import COMMON_OPTIONS, flag


@click.command(
    params=[
        click.Argument(["folder"], type=click.Path(exists=True, file_okay=False)),
        flag("--yes", "Remove what is listed, with its tiles."),
        *COMMON_OPTIONS,
    ],
    short_help="List or remove what stopped jobs have left.",
    epilog=EPILOG,
)
def clean(folder: str, yes: bool, as_json: bool) -> None:
    """List what stopped jobs have left in a folder: tiles that are finished.

    The command that was stopped continues from them; when they are removed, it starts
    anew. Folders of running jobs stay, and those that hold anything else.
    """
    from ..store.unfinished import list_leftovers

    found = [_handle(place, yes) for place in list_leftovers(folder)]
    if as_json:
        show(json.dumps({"leftovers": found}))
    else:
        show("\n".join(map(_show, found)) or f"no unfinished outputs in {folder!r}")
        if not yes and not all(left["obstacle"] for left in found):
            show("Add --yes to remove this; its tiles are lost.")
    kept = {left["code"] for left in found} - {"", "output-busy"}
    click.get_current_context().exit(FAILED if yes and kept else DONE)


def _handle(place: Any, yes: bool) -> dict[str, Any]:
    """Describe what is left, and remove it if asked to and nothing is wrong."""
    from ..store.unfinished import disk_bytes, remove_leftover

    times = []
    for path, *_ in os.walk(place.folder):
        # Its run may have just removed it.
        with suppress(FileNotFoundError):
            times.append(os.stat(path).st_mtime)
    last = max(times, default=time.time())
    about: dict[str, Any] = {
        "folder": place.folder,
        "output": place.location.path,
        "bytes": disk_bytes(place.folder),
        "idle_seconds": round(time.time() - last),
        "obstacle": "",
        "code": "",
    }
    try:
        remove_leftover(place, dry=not yes)
    except StoreError as error:
        about |= {"obstacle": error.problem, "code": error.code}
    return about | {"removed": yes and not about["code"]}


def _show(left: dict[str, Any]) -> str:
    from ..plan.show import show_seconds

    size, age = format_bytes(left["bytes"]), show_seconds(left["idle_seconds"])
    state = "removed" if left["removed"] else left["obstacle"]
    text = f"{left['folder']}: {size}, last changed {age} ago"
    return plain(f"{text}; {state}" if state else text)
