"""Conversion of errors of file systems and format libraries into StoreError."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import StoreError

_REASON_CHARACTERS = 300
# Advice and code for each error number whose reason the system names.
_ADVICE = {
    errno.ENOSPC: ("Free some space or choose another folder", "disk-full"),
    errno.EDQUOT: ("Free some of the quota or choose another folder", "disk-quota"),
    errno.EFBIG: ("Raise the limit on file sizes", "file-size-limit"),
    errno.EACCES: ("Change its permissions or choose another file", "no-permission"),
    errno.EPERM: ("Change its permissions or choose another file", "no-permission"),
    errno.EBUSY: ("Wait until no program uses it, and try again", "file-busy"),
    errno.EAGAIN: ("Wait until no program uses it, and try again", "file-busy"),
    errno.EROFS: ("Choose a folder that can be written", "no-permission"),
    errno.EISDIR: ("Name a file, or rename it to .zarr if it is one", "file-kind"),
    errno.ENOENT: ("Check its name and folder", "file-missing"),
    errno.ENOTDIR: ("Check its name and folder", "file-missing"),
    errno.ELOOP: ("Mend the link", "file-kind"),
    errno.ENAMETOOLONG: ("Choose a shorter one", "name-too-long"),
    errno.EIO: ("Check the system log", "disk-broken"),
}
# HDF5 hides the error number of the system inside a longer text.
_HDF5_ERRNO = re.compile(r"errno = (\d+)")


@contextmanager
def store_errors(name: object, action: str) -> Iterator[None]:
    """Turn every error that a file format raises into a StoreError."""
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
    """Return the reason, the advice and the code for an error."""
    is_missing = isinstance(error, FileNotFoundError)
    number = error.errno if isinstance(error, OSError) else None
    if is_missing:
        number = errno.ENOENT  # zarr raises a subclass without a number
    elif number is None and (found := _HDF5_ERRNO.search(str(error))):
        number = int(found[1])
    if number in _ADVICE and not is_remote:
        return os.strerror(number), *_ADVICE[number]
    text = str(error).partition("\n")[0][:_REASON_CHARACTERS].rstrip(".")
    reason = f"{type(error).__name__}: {text}"
    if is_remote:
        code = "file-missing" if is_missing else "store-unreachable"
        return reason, "Check the address, the credentials and the connection", code
    remedy = "Check that it is complete and in the format that its suffix names"
    return reason, remedy, "file-damaged"
