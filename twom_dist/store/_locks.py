"""The lock of a run, and the signs of life that it gives."""

import errno
import os
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
def beating(stream: IO[bytes]) -> Iterator[None]:
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
