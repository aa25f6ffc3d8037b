"""Move a finished temporary to its name, and remove an unwanted one."""

import os
import re
import shutil
import uuid
import warnings
from contextlib import suppress


def make_temporary_name(target: str) -> str:
    """Return a hidden sibling of the target that no pattern for stores matches."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name}.{uuid.uuid4().hex[:12]}.partial")


def packed_name(temporary: str) -> str:
    """Return where the archive of a temporary is packed before it gets its name.

    Examples
    --------
    >>> packed_name(".C.npz.0123456789ab.partial")
    '.C.npz.0123456789ab.packed.partial'
    """
    return f"{temporary.removesuffix('.partial')}.packed.partial"


def is_temporary_name(name: str, target: str) -> bool:
    """Whether `make_temporary_name` could have made the name for this target.

    Examples
    --------
    >>> is_temporary_name(".C.npy.0123456789ab.partial", "/data/C.npy")
    True
    >>> is_temporary_name("B.npy", "/data/C.npy")
    False
    """
    own = re.escape(os.path.basename(target))
    return re.fullmatch(rf"\.{own}\.[0-9a-f]{{12}}\.partial", name) is not None


def publish(temporary: str, target: str) -> None:
    """Give a file or folder its name in one step, or leave the old one there."""
    if os.path.isdir(temporary) and os.path.lexists(target):
        _swap_folder(temporary, target)
    else:
        os.replace(temporary, target)


def _swap_folder(temporary: str, target: str) -> None:
    # A folder cannot replace one that is not empty, so the old one steps aside. A run
    # killed between the two renames leaves nothing under the name, and both folders.
    aside = f"{temporary.removesuffix('.partial')}.old"
    os.rename(target, aside)
    try:
        os.rename(temporary, target)
    except OSError:
        os.rename(aside, target)
        raise
    try:
        remove(aside)
    except OSError as error:
        warnings.warn(
            f"the new {target!r} is in place, but the old one is still at {aside!r} "
            f"({error.strerror}); remove it by hand.",
            stacklevel=4,
        )


def sync_path(path: str) -> None:
    """Wait until a file, or the list of names in a folder, is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def measure_disk(path: str) -> int:
    """Return the bytes that a file, or a folder with all in it, takes on disk."""
    paths = [path]
    for folder, folders, files in os.walk(path):
        paths += [os.path.join(folder, name) for name in (*folders, *files)]
    total_bytes = 0
    for name in paths:
        # What has gone meanwhile takes nothing.
        with suppress(FileNotFoundError):
            # st_blocks counts 512 bytes on every system: inode(7). Holes take none.
            total_bytes += os.lstat(name).st_blocks * 512
    return total_bytes


def remove(path: str) -> None:
    """Remove a file or folder; one that is not there is no error."""
    try:
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        return
