"""What stopped jobs have left in a folder, and removing it."""

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path

from ..errors import StoreError
from ._errors import store_errors
from ._location import parse_location
from .output import Manifest, Output, open_output
from .unfinished import Unfinished

RUNNING = "a run is in it"
_STORE = re.compile(r"[0-9a-f]{12}\.zarr(\.draft|\.old)?")


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
        with open(place.lock_path, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        pass
    except BlockingIOError:
        return RUNNING
    except OSError as error:
        return f"a run may be in it: its lock cannot be tried ({error.strerror})"
    return _find_stranger(place)


def _find_stranger(place: Unfinished) -> str:
    output = os.path.basename(place.location.path)
    # Of an .npz an .npy file is made first.
    ours = ("lock", "room", output, f"{output}.npy")
    for entry in Path(place.folder).iterdir():
        known = entry.name in ours or _STORE.fullmatch(entry.name)
        if entry.is_symlink() or not known:
            return f"it holds {entry.name!r}, which is not of a job"
        # A run was killed between the two renames of `publish`.
        if entry.name.endswith(".old") and not os.path.lexists(place.location.path):
            return f"it holds what {output!r} was before; the same job puts it in order"
    return ""


def remove_leftover(place: Unfinished) -> None:
    """Remove what is left; refuse to where there is an obstacle by now."""
    with place.lock():
        if reason := _find_stranger(place):
            problem = f"{place.folder!r} is not removed: {reason}"
            raise StoreError(problem, "Look into it first", "not-removed")
        place.remove()
