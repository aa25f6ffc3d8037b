"""Disks as some machines have them: failing, full, or without what ours can do."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from twom_dist.store import _publish


@contextmanager
def failing(
    *steps: str, when: Callable[..., bool] = lambda *_: True, number: int = errno.EIO
) -> Iterator[None]:
    """Have functions of `os` fail where `when` takes what they are given."""

    def call(step: Callable[..., Any], *given: Any, **options: Any) -> Any:
        if when(*given):
            raise OSError(number, os.strerror(number))
        return step(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        for name in steps:
            patch.setattr(os, name, partial(call, getattr(os, name)))
        yield


def once_named(path: str, after: int = 0) -> Callable[..., bool]:
    """Take what is called once another file has a name, so many calls after."""

    def identify() -> int | None:
        return os.stat(path).st_ino if os.path.exists(path) else None

    before, calls = identify(), count()
    return lambda *_: identify() != before and next(calls) >= after


@contextmanager
def without_exchange() -> Iterator[None]:
    """Have a system that cannot exchange two names, such as macOS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_publish, "_exchange", lambda *_: False)
        yield


@contextmanager
def listing_syncs(output: str) -> Iterator[list[tuple[str, bool]]]:
    """List paths that are synced, and whether the output has its name by then."""
    found, sync = [], os.fsync

    def fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        found.append((path, os.path.lexists(output)))
        sync(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield found


@contextmanager
def free_bytes() -> Iterator[SimpleNamespace]:
    """Have a disk with as much room as the caller sets: `free`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: disk)
        yield (disk := SimpleNamespace(free=0))


@contextmanager
def attributes() -> Iterator[None]:
    """Have a file system whose files have attributes."""
    notes: dict[tuple[int, str], bytes] = {}

    def note(path: str, name: str, value: bytes) -> None:
        notes[os.stat(path).st_ino, name] = value

    def look(path: str, name: str) -> bytes:
        return notes[os.stat(path).st_ino, name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "setxattr", note, raising=False)
        patch.setattr(os, "getxattr", look, raising=False)
        yield
