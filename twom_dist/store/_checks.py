"""Checks and errors that every format shares."""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from ..errors import StoreError

_MAX_LISTED = 10
_REASON_CHARACTERS = 300
_ALLOWED_DTYPES = (
    "bool, integers of up to 64 bits, float32, float64, complex64 or complex128"
)
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
    errno.ENOENT: ("Check its name and whether a program has moved it", "file-missing"),
    errno.ENAMETOOLONG: ("Choose a shorter one", "name-too-long"),
    errno.EIO: ("Look at the log of the system", "disk-broken"),
}
# HDF5 hides the error number of the system inside a longer text.
_HDF5_ERRNO = re.compile(r"errno = (\d+)")


def native_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the plain dtype in native byte order, without metadata."""
    return np.dtype(dtype.str).newbyteorder("=")


def check_dtype(name: str, dtype: Any) -> np.dtype[Any]:
    """Return the native dtype, or refuse those that are no matrix elements."""
    with suppress(TypeError):
        known = np.dtype(dtype)
        allowed = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (4, 8)}
        sizes = {**allowed, "c": (8, 16)}.get(known.kind, ())
        if known.itemsize in sizes:
            return native_dtype(known)
    raise StoreError(
        f"{name!r} has dtype {dtype}; allowed are {_ALLOWED_DTYPES}",
        "Convert it first",
        "matrix-dtype",
    )


def check_shape(name: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the shape of a matrix, or refuse other numbers of dimensions."""
    if len(shape) != 2:
        raise StoreError(
            f"{name!r} is an array of shape {shape}, and a matrix has two dimensions",
            "Reshape it first or name another array",
            "matrix-shape",
        )
    return int(shape[0]), int(shape[1])


def list_names(names: Sequence[str]) -> str:
    """List some names, and count the rest."""
    listed = ", ".join(repr(name) for name in names[:_MAX_LISTED])
    left = len(names) - _MAX_LISTED
    return listed if left <= 0 else f"{listed} and {left} more"


@contextmanager
def store_errors(name: object, action: str) -> Iterator[None]:
    """Turn whatever a file format raises into a StoreError."""
    try:
        yield
    except (StoreError, MemoryError):
        raise
    # A damaged file makes the format libraries raise errors of every kind.
    except Exception as error:
        raise StoreError(*_describe_failure(str(name), action, error)) from error


def _describe_failure(name: str, action: str, error: Exception) -> tuple[str, str, str]:
    number = error.errno if isinstance(error, OSError) else None
    if "://" in name:
        reason = f"{type(error).__name__}: {str(error)[:_REASON_CHARACTERS]}"
        remedy = "Check the address, the credentials and the connection"
        missing = isinstance(error, FileNotFoundError)
        code = "file-missing" if missing else "store-unreachable"
        return f"{name!r} could not be {action} ({reason})", remedy, code
    if isinstance(error, FileNotFoundError):
        # zarr raises its own kind, without a number.
        number = errno.ENOENT
    if number is None and (found := _HDF5_ERRNO.search(str(error))):
        number = int(found[1])
    if number in _ADVICE:
        reason, (remedy, code) = os.strerror(number), _ADVICE[number]
    else:
        lines = str(error).splitlines() or [""]
        reason = f"{type(error).__name__}: {lines[0][:_REASON_CHARACTERS].rstrip('.')}"
        remedy = "Check that it is whole and of the format its suffix names"
        code = "file-damaged"
    return f"{name!r} could not be {action} ({reason})", remedy, code
