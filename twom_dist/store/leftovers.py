"""What stopped jobs have left in a folder, and removing it."""

import fcntl
import os
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from twom_dist.errors import StoreError
from twom_dist.store._checks import store_errors
from twom_dist.store._formats import FORMAT_TABLE
from twom_dist.store._location import parse_location
from twom_dist.store.output import Output
from twom_dist.store.unfinished import Unfinished

RUNNING = "a run is in it"
_FOLDER = re.compile(r"\.(?P<output>.+)\.unfinished", re.DOTALL)
_STORE = re.compile(r"[0-9a-f]{12}\.zarr(\.draft|\.old)?")


def list_leftovers(folder: str) -> list[Unfinished]:
    """List the outputs that are unfinished in a folder, not in those inside it."""
    found = []
    with store_errors(folder, "read"):
        paths = sorted(Path(os.path.abspath(folder)).iterdir())
    for path in paths:
        name = _FOLDER.fullmatch(path.name)
        if name is None or path.is_symlink() or not path.is_dir():
            continue
        # Not every such name is of an output.
        with suppress(StoreError):
            place = Unfinished(parse_location(path.with_name(name["output"])))
            if place.folder == str(path):
                found.append(place)
    return found


def read_leftover(place: Unfinished) -> tuple[Output, dict[str, Any]] | None:
    """Find the array, under whatever name, and its manifest; None if none is whole."""
    for store in sorted(Path(place.folder).glob("*.zarr")):
        # A damaged file makes zarr raise errors of every kind.
        try:
            for member in FORMAT_TABLE["zarr"].members(str(store)):
                location = replace(place.location, format="zarr", member=member)
                if found := Unfinished(location).find():
                    return found
        except Exception:
            continue
    return None


def find_obstacle(place: Unfinished) -> str:
    """Say why what is left must stay; nothing if it may go."""
    try:
        with open(os.path.join(place.folder, "lock"), "rb") as stream:
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
    """Remove what is left, and keep runs out of it meanwhile.

    It has no obstacle: where there is one by now, that is an error.
    """
    with place.lock():
        if reason := _find_stranger(place):
            problem = f"{place.folder!r} is not removed: {reason}"
            raise StoreError(problem, "Look into it first", "not-removed")
        place.remove()
