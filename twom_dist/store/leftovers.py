"""What stopped jobs have left in a folder, and removing it."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from ..errors import StoreError
from ._errors import store_errors
from ._location import parse_location
from .output import Manifest, Output, open_output
from .unfinished import Unfinished

RUNNING = "a run is in it"


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


def read_leftover(place: Unfinished) -> tuple[Output, Manifest] | None:
    """Find the array, under whatever name, and its manifest; None if none is whole."""
    for metadata in Path(place.folder).glob("*.zarr/**/zarr.json"):
        # Of a group, or damaged: then zarr raises errors of every kind.
        with suppress(Exception):
            output, manifest = open_output(str(metadata.parent), "")
            if f"{output.id}.zarr" in metadata.parts:
                return output, manifest
    return None


def find_obstacle(place: Unfinished) -> str:
    """Say why what is left must stay; nothing if it may go."""
    try:
        # A pipe would be waited for.
        lock = os.open(place.lock_path, os.O_RDONLY | os.O_NONBLOCK)
        with open(lock, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return "it has no lock, and so is not of a job"
    except BlockingIOError:
        return RUNNING
    except OSError as error:
        return f"a run may be in it: its lock cannot be tried ({error.strerror})"
    return _find_stranger(place)


def _find_stranger(place: Unfinished) -> str:
    if stranger := place.find_stranger():
        return f"it holds {stranger!r}, which is not of a job"
    if os.path.lexists(place.location.path) or not any(
        entry.endswith(".old") for entry in os.listdir(place.folder)
    ):
        return ""
    # A run was killed between the two renames of `publish`.
    output = os.path.basename(place.location.path)
    return f"it holds what {output!r} was before; the same job puts it in order"


def remove_leftover(place: Unfinished) -> None:
    """Remove what is left; refuse to where there is an obstacle by now."""
    with place.lock():
        if reason := _find_stranger(place):
            problem = f"{place.folder!r} is not removed: {reason}"
            raise StoreError(problem, "Look into it first", "not-removed")
        place.remove()
