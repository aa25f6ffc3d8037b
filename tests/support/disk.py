"""Disks as some machines have them: failing, full, or without what ours can do."""

import errno
import os
import shutil
from contextlib import contextmanager
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest


@contextmanager
def failing(*steps, when=lambda *_: True, number=errno.EIO):
    """Have functions of `os` fail where `when` takes what they are given."""

    def call(step, *given, **options):
        if when(*given):
            raise OSError(number, os.strerror(number))
        return step(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        for name in steps:
            patch.setattr(os, name, partial(call, getattr(os, name)))
        yield


def once_named(path, after=0):
    """Take what is called once another file has a name, so many calls after."""

    def identify():
        return os.stat(path).st_ino if os.path.exists(path) else None

    before, calls = identify(), count()
    return lambda *_: identify() != before and next(calls) >= after


@contextmanager
def listing_syncs(output):
    """List paths that are synced, and whether the output has its name by then."""
    found, sync = [], os.fsync

    def fsync(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        found.append((path, os.path.lexists(output)))
        sync(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield found


@contextmanager
def free_bytes():
    """Have a disk with as much room as the caller sets: `free`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: disk)
        yield (disk := SimpleNamespace(free=0))
