"""What stopped jobs have left in a folder, and removing it."""

import os
from contextlib import suppress
from pathlib import Path

from ..errors import StoreError
from ._errors import store_errors
from ._location import parse_location
from .unfinished import Unfinished


def list_leftovers(folder: str) -> list[Unfinished]:
    """List the outputs that are unfinished in a folder, not in those inside it."""
    found = []
    with store_errors(folder, "read"):
        paths = sorted(Path(os.path.abspath(folder)).iterdir())
    for path in paths:
        output = path.name.removeprefix(".").removesuffix(".unfinished")
        # Most names are not of an output.
        with suppress(StoreError):
            place = Unfinished(parse_location(os.path.join(path.parent, output)))
            if place.folder == str(path) and path.is_dir() and not path.is_symlink():
                found.append(place)
    return found


def remove_leftover(place: Unfinished, *, dry: bool = False) -> None:
    """Remove what is left, or only refuse to where it must stay."""
    obstacle = "it has no lock, and so is not of a job"
    # To lock would make the file.
    if os.path.isfile(place.lock_path):
        with place.lock(surely=True):
            obstacle = place.find_obstacle()
            if not (obstacle or dry):
                place.remove()
    if obstacle:
        problem = f"{place.folder!r} stays: {obstacle}"
        raise StoreError(problem, "Look into it first", "not-removed")
