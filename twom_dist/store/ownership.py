"""Folders and files that are trusted only if no other user can have written to them."""

import errno
import os
import stat
import tempfile
from contextlib import suppress

from ..errors import StoreError

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def make_own_folder(path: str) -> None:
    """Make a folder for this user alone, or check the one that exists."""
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
        return
    check_own_folder(path)


def check_own_folder(path: str) -> None:
    """Refuse a link, and a folder that others own or may write to.

    Some file systems show the same owner or mode for all files: on them a folder must
    look like one that this process makes beside it.
    """
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise _refuse(path, "is a link or a file, not a folder")
    if _look(found) == (os.geteuid(), 0):
        return
    with tempfile.TemporaryDirectory(prefix=".", dir=os.path.dirname(path)) as own:
        expected = _look(os.lstat(own))
    if found.st_uid != expected[0]:
        raise _refuse(path, "belongs to another user")
    if _look(found) != expected:
        raise _refuse(path, "can be written to by others")


def open_own(path: str, flags: int = os.O_RDONLY) -> int:
    """Open or make a file in such a folder; return its descriptor.

    Links, pipes and files that belong to others are refused.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _refuse(path, "is a link") from None
    found, folder = os.fstat(descriptor), os.stat(os.path.dirname(path))
    if stat.S_ISREG(found.st_mode) and found.st_uid == folder.st_uid:
        return descriptor
    os.close(descriptor)
    raise _refuse(path, "is not a file, or belongs to another user")


def _look(status: os.stat_result) -> tuple[int, int]:
    return status.st_uid, status.st_mode & _OTHERS


def _refuse(path: str, flaw: str) -> StoreError:
    return StoreError(
        f"{path!r} {flaw}, so its contents are not trusted",
        "Remove it, or choose another folder for the output",
        "not-own",
    )
