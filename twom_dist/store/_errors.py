"""Whatever a file system or a format library raises, as errors of ours."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import StoreError

_REASON_CHARACTERS = 300
# What to do, and a code, where the system gives a reason.
_ADVICE = {
    errno.ENOSPC: ("Free some space or choose another folder", "disk-full"),
    errno.EDQUOT: ("Free some of the quota or choose another folder", "disk-quota"),
    errno.EFBIG: ("Raise the limit on file sizes", "file-size-limit"),
    errno.EACCES: ("Change its permissions or choose another file", "no-permission"),
    errno.EPERM: ("Change its permissions or choose another file", "no-permission"),
    errno.EBUSY: ("Let the program that uses it finish, and try again", "file-busy"),
    errno.EAGAIN: ("Let the program that uses it finish, and try again", "file-busy"),
    errno.EROFS: ("Choose a folder that can be written", "no-permission"),
    errno.EISDIR: ("Name a file, or rename it to .zarr if it is one", "file-kind"),
    errno.ENOENT: ("Check the name, and whether it was moved", "file-missing"),
    errno.ENAMETOOLONG: ("Choose a shorter one", "name-too-long"),
    errno.EIO: ("Look at the log of the system", "disk-broken"),
}
# HDF5 hides the error number of the system inside a longer text.
_HDF5_ERRNO = re.compile(r"errno = (\d+)")


@contextmanager
def store_errors(name: object, action: str) -> Iterator[None]:
    """Turn whatever a file format raises into a StoreError."""
    try:
        yield
    except (StoreError, MemoryError):
        raise
    # A damaged file makes the format libraries raise errors of every kind.
    except Exception as error:
        reason, remedy, code = _explain(error, "://" in str(name))
        problem = f"{str(name)!r} could not be {action} ({reason})"
        raise StoreError(problem, remedy, code) from error


def _explain(error: Exception, is_remote: bool) -> tuple[str, str, str]:
    """Tell the reason, what to do, and a code."""
    is_missing = isinstance(error, FileNotFoundError)
    number = error.errno if isinstance(error, OSError) else None
    if is_missing:
        # zarr raises its own kind, without a number.
        number = errno.ENOENT
    elif number is None and (found := _HDF5_ERRNO.search(str(error))):
        number = int(found[1])
    if number in _ADVICE and not is_remote:
        return os.strerror(number), *_ADVICE[number]
    text = str(error).partition("\n")[0][:_REASON_CHARACTERS].rstrip(".")
    reason = f"{type(error).__name__}: {text}"
    if is_remote:
        code = "file-missing" if is_missing else "store-unreachable"
        return reason, "Check the address, the credentials and the connection", code
    remedy = "Check that it is whole and of the format its suffix names"
    return reason, remedy, "file-damaged"
