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

fcntl: Any = None
# Windows has none, and the rest of the package does without.
with suppress(ImportError):
    import fcntl

# Errors of file systems that cannot lock; on them runs are not kept apart.
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
# Longer than `watch` holds a lock.
_ASKING_SECONDS = 0.05
# From one sign of life of a run to the next.
BEAT_SECONDS = 10.0


def check_system() -> None:
    """Refuse a system without such locks."""
    if fcntl is None:
        problem = "jobs keep out of each other's way by locks of Linux and macOS"
        raise StoreError(problem, "Run them there; in Windows, under WSL", "no-locks")


def lock(stream: IO[bytes]) -> None:
    """Take a lock; wait for a moment, since whoever asks for it holds it for one."""
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
        return None if error.errno in NO_LOCKS else True
    return False


@contextmanager
def heartbeat(stream: IO[bytes]) -> Iterator[None]:
    """Give the lock file a new time now and every few seconds."""
    ended = Event()

    def beat() -> None:
        # Somebody may have removed the folder.
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
        # Before the file is closed, whose number another one may get.
        thread.join()


def is_at(path: str, stream: IO[bytes]) -> bool:
    """Return True if an open file still has this name."""
    try:
        return os.path.samefile(path, stream.fileno())
    except FileNotFoundError:
        return False


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
