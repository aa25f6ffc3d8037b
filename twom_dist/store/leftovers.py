"""Search for and removal of files that stopped jobs have left in a folder."""

import os
from contextlib import suppress
from pathlib import Path

from ..errors import StoreError
from ._errors import store_errors
from ._location import make_absolute, parse_location
from .unfinished import Unfinished


def list_leftovers(folder: str) -> list[Unfinished]:
    """List the unfinished outputs in a folder, but not in its subfolders."""
    found = []
    with store_errors(folder, "read"):
        paths = sorted(Path(make_absolute(folder)).iterdir())
    for path in paths:
        output = path.name.removeprefix(".").removesuffix(".unfinished")
        # Most names are not those of an output.
        with suppress(StoreError):
            place = Unfinished(parse_location(os.path.join(path.parent, output)))
            if place.folder == str(path) and path.is_dir() and not path.is_symlink():
                found.append(place)
    return found


def remove_leftover(place: Unfinished, *, dry: bool = False) -> None:
    """Remove an unfinished output unless it must stay; `dry`: only check that."""
    obstacle = "it has no lock file, so twom-dist did not make it"
    # Locking would create the file.
    if os.path.isfile(place.lock_path):
        with place.lock(surely=True):
            obstacle = place.find_obstacle()
            if not (obstacle or dry):
                place.remove()
    if obstacle:
        problem = f"{place.folder!r} stays: {obstacle}"
        raise StoreError(problem, "Look inside it first", "not-removed")
