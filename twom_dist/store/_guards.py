"""Guards of a hidden folder: its lock, and its owner."""

import errno
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import IO, Any

from ..errors import StoreError
from . import _tree as tree
from ._errors import store_errors

fcntl: Any = None
# Windows has none, and the rest of the package does without.
with suppress(ImportError):
    import fcntl

# Errors of file systems that cannot lock; on them runs are not kept apart.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
# Publishing the output opens the folder in order to sync its list of names.
_ALL_RIGHTS = os.R_OK | os.W_OK | os.X_OK
_ASKING_SECONDS = 0.05  # longer than `watch` holds a lock
BEAT_SECONDS = 10.0  # from one sign of life of a run to the next


@contextmanager
def exclude_runs(folder: str, output: str) -> Iterator[None]:
    """Make the hidden folder of an output and keep other runs out of it."""
    if fcntl is None:
        problem = "jobs keep out of each other's way by locks of Linux and macOS"
        raise StoreError(problem, "Run them there; in Windows, under WSL", "no-locks")
    around = os.path.dirname(folder)
    if not (os.path.isdir(around) and os.access(around, _ALL_RIGHTS)):
        problem = f"there is no folder {around!r} that can be read and written to"
        raise StoreError(problem, "Create it or choose another", "no-folder")
    path = os.path.join(folder, "lock")
    with store_errors(folder, "written"):
        _make_own_folder(folder)
        stream = open(path, "ab")  # noqa: SIM115
    # Closing the file releases the lock.
    with stream:
        text = f"{output!r} is being written by another run"
        busy = StoreError(text, "Let it finish, or choose another name", "output-busy")
        try:
            _lock(stream)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise busy from None
        # The run that held the lock may have removed the file meanwhile.
        if not _is_at(path, stream):
            raise busy
        try:
            with _heartbeat(stream):
                yield
        finally:
            # A run that was refused or killed early leaves only the lock file.
            with suppress(OSError):
                if os.listdir(folder) == ["lock"] and _is_at(path, stream):
                    tree.remove(folder)


def _lock(stream: IO[bytes]) -> None:
    """Take a lock; wait a moment, since those who probe it hold it for one."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(_ASKING_SECONDS)
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_locked(stream: IO[bytes]) -> bool | None:
    """Tell whether a run holds the lock; None if the file system cannot lock."""
    try:
        fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return None if error.errno in _NO_LOCKS else True
    return False


@contextmanager
def _heartbeat(stream: IO[bytes]) -> Iterator[None]:
    """Give the lock file a new time now and every few seconds."""
    ended = Event()

    def beat() -> None:
        # The folder may have been removed.
        with suppress(OSError):
            os.utime(stream.fileno())
            while not ended.wait(BEAT_SECONDS):
                os.utime(stream.fileno())

    thread = Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()  # before the file is closed, whose number another one may get


def _is_at(path: str, stream: IO[bytes]) -> bool:
    try:
        return os.path.samefile(path, stream.fileno())
    except FileNotFoundError:
        return False


_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def _make_own_folder(path: str) -> None:
    """Make a folder for this user alone, or check the one that exists.

    Refused are links, and folders that others own or may write to. Some file systems
    show the same owner or mode for all files: on them a folder must look like one that
    this process makes beside it.
    """
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
        return
    found, flaw = os.lstat(path), "is a link or a file, not a folder"
    if stat.S_ISDIR(found.st_mode):
        if _look(found) == (os.geteuid(), 0):
            return
        with tempfile.TemporaryDirectory(prefix=".", dir=os.path.dirname(path)) as own:
            expected = _look(os.lstat(own))
        if _look(found) == expected:
            return
        flaw = "can be written to by others"
        if found.st_uid != expected[0]:
            flaw = "belongs to another user"
    problem = f"{path!r} {flaw}, so its contents are not trusted"
    remedy = "Remove it, or choose another folder for the output"
    raise StoreError(problem, remedy, "not-own")


def _look(status: os.stat_result) -> tuple[int, int]:
    return status.st_uid, status.st_mode & _OTHERS
