"""Renaming of a finished file or folder to its final name."""

import ctypes
import errno
import os
import shutil

from ._tree import sync

# From Linux's renameat2(2).
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# Errors of kernels and file systems that cannot exchange names.
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTTY, errno.EOPNOTSUPP)


def publish(finished: str, target: str) -> None:
    """Give a file or folder its name in one step, or leave the old one in place.

    The new one gets the permissions of the old one. An old folder moves to where the
    new one was. If the system cannot exchange two folders, a run that is killed between
    two renames leaves nothing under the name.
    """
    if os.path.lexists(target):
        shutil.copymode(target, finished)
    if not (os.path.isdir(finished) and os.path.isdir(target)):
        os.replace(finished, target)
    elif not _exchange(finished, target):
        aside = f"{finished}.old"
        os.rename(target, aside)
        try:
            os.rename(finished, target)
        except OSError:
            os.rename(aside, target)
            raise
    sync(os.path.dirname(target))


def _exchange(one: str, other: str) -> bool:
    """Exchange two names; return False if the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    names = os.fsencode(one), os.fsencode(other)
    if rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), other)
