"""What can be known about an output before anything is written."""

import os
import shutil
from collections.abc import Sequence

import numpy as np

from twom_dist.errors import StoreError
from twom_dist.store._checks import list_names, store_errors
from twom_dist.store._draft import Draft
from twom_dist.store._formats import FORMAT_TABLE
from twom_dist.store._location import Location
from twom_dist.store._zarr import is_store


def check_integers(
    name: str, what: str, values: Sequence[int], least: int
) -> tuple[int, int]:
    """Return two integers, or refuse anything else."""
    good = len(values) == 2 and all(
        isinstance(value, (int, np.integer)) and value >= least for value in values
    )
    if not good:
        raise StoreError(
            f"the {what} {tuple(values)} was given for {name!r}; allowed are two "
            f"integers of {least} or more: give (rows, columns)."
        )
    return int(values[0]), int(values[1])


def check_folder(target: str) -> None:
    """Refuse a target whose folder cannot take it."""
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise StoreError(
            f"{target!r} cannot be written, since {folder!r} is no folder; make it "
            "first or choose another."
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(
            f"{target!r} cannot be written, since {folder!r} may not be written to; "
            "change its permissions or choose another folder."
        )


def check_target(location: Location, target: str, overwrite: bool) -> None:
    """Refuse a target that is there, unless it may be replaced."""
    if not os.path.lexists(target):
        return
    if location.member is not None:
        raise StoreError(
            f"{str(location)!r} is to go into a container that exists, and members are "
            "not added to one: name a container that does not exist yet."
        )
    if not overwrite:
        raise StoreError(
            f"{target!r} exists; choose another name, or allow it to be overwritten "
            "with overwrite=True."
        )
    is_folder = os.path.isdir(target)
    if not FORMAT_TABLE[location.format].IS_FOLDER:
        replaceable = not is_folder
    else:
        replaceable = is_folder and (is_store(target) or not os.listdir(target))
    if not replaceable:
        raise StoreError(
            f"{target!r} exists and is no {location.format} matrix, so it is not "
            "overwritten: move it away or choose another name."
        )
    _check_members(location, target)


def _check_members(location: Location, target: str) -> None:
    """Refuse to replace a container that holds anything but an output of its own."""
    form = FORMAT_TABLE[location.format]
    with store_errors(target, "read"):
        others = [name for name in form.members(target) if name != form.DEFAULT_MEMBER]
    if others:
        raise StoreError(
            f"{target!r} holds {list_names(others)}, which would be lost with it, "
            "so it is not overwritten: move it away or choose another name."
        )


def check_space(location: Location, draft: Draft, freed_bytes: int = 0) -> None:
    """Refuse a matrix that the disk has no room for, once some bytes are freed."""
    needed_bytes = FORMAT_TABLE[location.format].needed_bytes(draft)
    folder = os.path.dirname(draft.temporary)
    free_bytes = shutil.disk_usage(folder).free + freed_bytes
    if needed_bytes > free_bytes:
        counted = ", with what is discarded" if freed_bytes else ""
        raise StoreError(
            f"{str(location)!r} needs {needed_bytes} bytes and {folder!r} has "
            f"{free_bytes} free{counted}; free some space or choose another folder."
        )
