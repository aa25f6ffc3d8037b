"""What can be known about an output before anything is written."""

import os
import shutil

from ..errors import StoreError
from ._checks import list_names, store_errors
from ._location import Location
from ._tree import exists, is_store, is_url, list_files
from .reader import matrix_class

_MOVE = "Move it away or choose another name"


def check_folder(target: str) -> None:
    """Refuse a target whose folder cannot take it."""
    folder = os.path.dirname(target)
    try:
        # The slash refuses what is not a folder.
        os.stat(f"{folder}/")
        is_writable = os.access(folder, os.W_OK | os.X_OK)
    except PermissionError:
        is_writable = False
    except OSError:
        raise StoreError(
            f"cannot write {target!r}: the directory {folder!r} does not exist",
            "Create it first or choose another",
            "no-folder",
        ) from None
    if not is_writable:
        raise StoreError(
            f"cannot write {target!r}: the directory {folder!r} is not writable",
            "Change its permissions or choose another",
            "no-permission",
        )


def check_target(location: Location, overwrite: bool) -> None:
    """Refuse a target that is there, unless it may be replaced."""
    target, form = location.path, location.format
    if not exists(target):
        return
    if location.member is not None:
        raise StoreError(
            f"{target!r} exists, and members are not added to a container",
            "Name a container that does not exist yet",
            "container-exists",
        )
    if not overwrite:
        raise StoreError(
            f"{target!r} exists",
            "Choose another name, or replace it with overwrite",
            "output-exists",
        )
    is_folder = is_url(target) or os.path.isdir(target)
    replaceable = is_folder == (form == "zarr")
    if replaceable and is_folder:
        replaceable = is_store(target) or not any(list_files(target))
    if not replaceable:
        raise StoreError(
            f"{target!r} exists and is not a {form} matrix, so it is not overwritten",
            _MOVE,
            "output-no-matrix",
        )
    with store_errors(target, "read"):
        others = matrix_class(form).list_others(target)
    if others:
        raise StoreError(
            f"{target!r} holds {list_names(others)}, which would be lost, so it is not "
            "overwritten",
            _MOVE,
            "output-holds-others",
        )


def check_space(folder: str, needed_bytes: int) -> None:
    """Refuse a matrix that the disk has no room for."""
    free_bytes = shutil.disk_usage(folder).free
    if needed_bytes > free_bytes:
        raise StoreError(
            f"the output needs {needed_bytes} bytes and {folder!r} has {free_bytes} "
            "free",
            "Free some space or choose another folder",
            "disk-full",
        )
