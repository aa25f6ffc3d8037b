"""Checks and error sentences that every format shares."""

import errno
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from twom_dist.errors import StoreError
from twom_dist.store._location import Location

_MAX_LISTED = 10
_REASON_CHARACTERS = 300
_ALLOWED_DTYPES = (
    "bool, integers of up to 64 bits, float32, float64, complex64 or complex128"
)
_ADVICE = {
    errno.ENOSPC: "free some space or choose another folder",
    errno.EDQUOT: "free some of the quota or choose another folder",
    errno.EFBIG: "raise the limit on file sizes or choose another folder",
    errno.EACCES: "change its permissions or choose another file",
    errno.EPERM: "change its permissions or choose another file",
    errno.EBUSY: "let the program that uses it finish, and try again",
    errno.EAGAIN: "let the program that uses it finish, and try again",
    errno.EROFS: "choose a folder that can be written",
    errno.ENOENT: "check its name and whether another program has moved it",
}
# HDF5 hides the error number of the system inside a longer text.
_HDF5_ERRNO = re.compile(r"errno = (\d+)")


@dataclass(frozen=True)
class Description:
    """What a file says about the array at a location."""

    location: Location
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] | None
    fingerprint: str


def native_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the plain dtype in native byte order, without metadata."""
    return np.dtype(dtype.str).newbyteorder("=")


def check_dtype(name: str, dtype: Any) -> np.dtype[Any]:
    """Return the native dtype, or refuse those that are no matrix elements."""
    try:
        known = np.dtype(dtype)
    except TypeError:
        raise StoreError(_refuse_dtype(name, dtype)) from None
    allowed = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (4, 8)}
    sizes = {**allowed, "c": (8, 16)}.get(known.kind, ())
    if known.itemsize not in sizes:
        raise StoreError(_refuse_dtype(name, known))
    return native_dtype(known)


def _refuse_dtype(name: str, dtype: Any) -> str:
    return (
        f"{name!r} has dtype {dtype}; allowed are {_ALLOWED_DTYPES}: convert it first."
    )


def check_shape(name: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the shape of a matrix, or refuse other numbers of dimensions."""
    if len(shape) != 2 or min(shape) < 0:
        raise StoreError(
            f"{name!r} has shape {shape}, {len(shape)} dimensions; matrices have two: "
            "reshape it first or name another array."
        )
    return int(shape[0]), int(shape[1])


def check_unchanged(
    expected: Description, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> None:
    """Refuse a file that was rewritten as another matrix after it was opened."""
    if tuple(shape) != expected.shape or native_dtype(dtype) != expected.dtype:
        raise StoreError(
            f"{str(expected.location)!r} was opened as a {expected.shape} matrix of "
            f"{expected.dtype} and now has shape {tuple(shape)} and dtype {dtype}; "
            "open it again."
        )


def check_size(name: str, available: int, needed: int) -> None:
    """Refuse a file that is shorter than its header says."""
    if available < needed:
        raise StoreError(
            f"{name!r} is truncated: its header asks for {needed} bytes and it has "
            f"{available}; copy or write it again."
        )


def choose_member(location: Location, candidates: Sequence[str]) -> str:
    """Return the one 2-D array of a container, or list what there is."""
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise StoreError(
            f"{str(location)!r} holds no 2-D array; give a file that holds one."
        )
    raise StoreError(
        f"{str(location)!r} holds {len(candidates)} 2-D arrays, "
        f"{list_names(candidates)}: name one of them as 'path::member'."
    )


def refuse_member(location: Location, candidates: Sequence[str]) -> StoreError:
    """Return the error for a member that is not there or is no array."""
    if list(candidates) == [""]:
        held = "the container is itself one array: leave out the member"
    elif candidates:
        held = f"its 2-D arrays are {list_names(candidates)}: name one of them"
    else:
        held = "there is no 2-D array beside it: give another file"
    return StoreError(f"{str(location)!r} names no array of the container; {held}.")


def list_names(names: Sequence[str]) -> str:
    """List some names, and count the rest."""
    listed = ", ".join(repr(name) for name in names[:_MAX_LISTED])
    left = len(names) - _MAX_LISTED
    return listed if left <= 0 else f"{listed} and {left} more"


def stamp_file(path: str) -> str:
    """Return size and modification time: what changes when a file is rewritten."""
    # Opened: a network file system may answer for a name from its cache.
    with open(path, "rb") as stream:
        status = os.fstat(stream.fileno())
    return f"{status.st_size}-{status.st_mtime_ns}"


def stamp_whole(location: Location) -> str:
    """Return the stamp of a location that is one file."""
    return stamp_file(location.path)


def padded_bytes(
    shape: tuple[int, int], chunks: tuple[int, int], dtype: np.dtype[Any]
) -> int:
    """Return the bytes of whole chunks that cover the shape."""
    counts = (math.ceil(n / c) for n, c in zip(shape, chunks, strict=True))
    return math.prod(counts) * math.prod(chunks) * dtype.itemsize


@contextmanager
def store_errors(name: object, action: str) -> Iterator[None]:
    """Turn whatever a file format raises into one StoreError sentence."""
    try:
        yield
    except (StoreError, MemoryError):
        raise
    # A damaged file makes the format libraries raise errors of every kind.
    except Exception as error:
        raise StoreError(_describe_failure(str(name), action, error)) from error


def _describe_failure(name: str, action: str, error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, FileNotFoundError):
        # zarr raises its own kind, without a number.
        number = errno.ENOENT
    if number is None and (found := _HDF5_ERRNO.search(str(error))):
        number = int(found[1])
    if number in _ADVICE:
        reason, advice = os.strerror(number), _ADVICE[number]
    else:
        lines = str(error).splitlines() or [""]
        reason = f"{type(error).__name__}: {lines[0][:_REASON_CHARACTERS].rstrip('.')}"
        advice = "check that it is whole and of the format its suffix names"
    return f"{name!r} could not be {action} ({reason}); {advice}."
