"""``twom-dist clean``: what stopped jobs have left, and removing it."""

import json
import os
import time
from typing import Any

import click
from dask.utils import format_bytes, format_time

from ..errors import StoreError
from ..tiles.routine import ROUTINES
from .failures import DONE, EPILOG, FAILED
from .options import COMMON_OPTIONS, flag
from .streams import show


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
    anew. What a run is in stays, and so does a folder that holds anything else.
    """
    from ..store.leftovers import RUNNING, list_leftovers, remove_leftover

    found = []
    for place in list_leftovers(folder):
        left = _describe(place)
        if yes and not left["obstacle"]:
            try:
                remove_leftover(place)
                left["removed"] = True
            except StoreError as error:
                left["obstacle"] = error.problem
        found.append(left)
    if as_json:
        show(json.dumps({"leftovers": found}))
    else:
        show("\n".join(map(_show, found)) or f"nothing is left in {folder!r}")
        if not yes and not all(left["obstacle"] for left in found):
            show("Add --yes to remove this; its tiles are lost.")
    kept = {left["obstacle"] for left in found} - {"", RUNNING}
    click.get_current_context().exit(FAILED if yes and kept else DONE)


def _describe(place: Any) -> dict[str, Any]:
    from ..store.leftovers import find_obstacle, read_leftover
    from ..store.unfinished import disk_bytes

    folders = [path for path, _, _ in os.walk(place.folder)]
    last = max((os.stat(path).st_mtime for path in folders), default=time.time())
    about: dict[str, Any] = {
        "folder": place.folder,
        "output": place.location.path,
        "bytes": disk_bytes(place.folder),
        "idle_seconds": round(time.time() - last),
        "obstacle": find_obstacle(place),
        "removed": False,
    }
    if (left := read_leftover(place)) is None:
        return about
    output, manifest = left
    routine = str(manifest.get("made", {}).get("routine"))
    (m, n), (mb, nb) = output.shape, output.tile
    cells, rule = output.finished(), ROUTINES.get(routine, ROUTINES["gemm"])
    if rule.triangle:
        cells = {(max(cell), min(cell)) for cell in cells}
    return about | {
        "routine": routine,
        "shape": output.shape,
        "dtype": output.dtype.name,
        "done": len(cells),
        "tiles": rule.count_cells(-(-m // mb), -(-n // nb)),
    }


def _show(left: dict[str, Any]) -> str:
    job = "no array that can be continued"
    if "tiles" in left:
        m, n = left["shape"]
        job = f"{left['routine']}, {m} x {n} {left['dtype']}"
        job += f", {left['done']} of {left['tiles']} tiles"
    size, age = format_bytes(left["bytes"]), format_time(left["idle_seconds"])
    state = "removed" if left["removed"] else left["obstacle"]
    text = f"{left['folder']}: {job}, {size}, last changed {age} ago"
    return f"{text}; {state}" if state else text
