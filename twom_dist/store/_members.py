"""A member of an HDF5 file that exists: others in the file stay as they are."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from ..errors import StoreError
from ._errors import store_errors
from ._location import Location
from ._tree import check_kind, stamp_file


def check_member(location: Location, overwrite: bool) -> None:
    """Refuse a member that would take more from its file than its own dataset."""
    path, member = location.path, str(location.member)
    if location.format != "hdf5":
        raise StoreError(
            f"{path!r} exists, and members are added to HDF5 files only",
            "Name a container that does not exist yet",
            "container-exists",
        )
    with store_errors(path, "read"):
        check_kind(path)
        found = _look_for(path, member)
    if found == "is a dataset" and not overwrite:
        raise StoreError(
            f"{str(location)!r} exists",
            "Choose another name, or replace it (overwrite=True, --overwrite)",
            "output-exists",
        )
    if found not in ("", "is a dataset"):
        raise StoreError(
            f"{str(location)!r} {found}, and only a dataset is replaced",
            "Choose another name",
            "output-holds-others",
        )


def _look_for(path: str, member: str) -> str:
    """Tell what has the name of a member, or ends the way to it; empty if nothing."""
    import h5py

    with _open(path) as file:
        node = file
        for name in member.split("/"):
            if not isinstance(node, h5py.Group):
                return f"leads through a {type(node).__name__.lower()}"
            link = node.get(name, getlink=True)
            if link is None:
                return ""
            # Another file, or another name in this one, would be written to.
            if not isinstance(link, h5py.HardLink):
                return "is a link, or leads through one"
            node = node[name]
        return f"is a {type(node).__name__.lower()}"


@contextmanager
def exclude_writers(location: Location) -> Iterator[Callable[[], None]]:
    """Keep programs that write out of a file; yield a check that it is as it was.

    The lock of HDF5 keeps them out, and the check finds them where there are no locks.
    """
    if location.member is None:
        yield lambda: None
        return
    path, there = location.path, os.path.exists(location.path)

    def check() -> None:
        if (stamp_file(path) if os.path.exists(path) else None) != stamp:
            raise StoreError(
                f"{path!r} changed while {location.member!r} was written beside it",
                "Run the same job again, and leave the file alone meanwhile",
                "container-changed",
            )

    with _open(path) if there else nullcontext():
        stamp = stamp_file(path) if there else None
        yield check


def _open(path: str) -> Any:
    """Open a file that no program writes to, this one included."""
    import h5py

    file = h5py.File(path, "r")
    # Without locks, HDF5 shares what this process has open, data on their way included.
    if file.mode != "r":
        file.close()
        problem = f"{path!r} is open for writing in this process"
        raise StoreError(problem, "Close it first", "file-busy")
    return file
