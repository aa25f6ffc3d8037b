"""A matrix that stays on disk, and what each format must be able to read of it."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar, Self, cast

import numpy as np

from ..errors import StoreError, portable_errors
from ..tiles.integers import pair_dtype, part_dtype
from ..typing import Array
from . import _tree as tree
from ._errors import store_errors
from ._location import Location, parse_location
from ._tree import Stamp

Region = tuple[slice, ...]  # of rows and columns, and of the parts of pairs

# Codes of the allowed dtypes, without their byte order.
_DTYPE = re.compile(r"b1|[iu][1248]|f[48]|c8|c16")
_MAX_LISTED = 10
_SAY_PAIRS = (
    "If its last axis holds real and imaginary parts, give pairs=True (td.integers)"
)
_SAY_ARRAYS = (
    "Name another array, or multiply this one in Python, as dask array or by "
    "td.xarray, and store the result with to_zarr"
)


@dataclass(frozen=True)
class StoredMatrix(ABC):
    """A matrix in a file, which is read whenever the matrix is indexed.

    `open_matrix` makes it. It holds no open file, so it can be pickled and read in any
    process that sees the same file system. Its methods raise StoreError if the file is
    gone. Each format has a subclass.
    """

    location: Location
    shape: tuple[int, int]
    # That of the values as read, in native byte order. Pairs of integers, which a third
    # axis holds in the file, have two fields.
    dtype: np.dtype[Any]
    # Rows and columns of the pieces it is stored in; None if it is stored whole.
    chunks: tuple[int, int] | None
    # Size and modification time of the file, which a copy may keep; for zarr those of
    # the metadata file, with shape and dtype.
    fingerprint: str
    # When the file, its name, owner or permissions last changed, which no copy keeps.
    # Empty at a URL.
    changed: str
    ndim: ClassVar = 2

    @property
    def path(self) -> str:
        """Absolute path of the file or directory store."""
        return self.location.path

    @property
    def pairs(self) -> bool:
        """True if entries are pairs of integers."""
        return self.dtype.names is not None

    @property
    def parts(self) -> np.dtype[Any]:
        """Dtype of the values in the file, in native byte order."""
        return part_dtype(self.dtype)

    def __getitem__(self, index: tuple[slice, slice]) -> Array:
        """Read a rectangle, of neighbouring rows and columns, into a new array."""
        ends = (x.indices(n)[:2] for x, n in zip(index, self.shape, strict=True))
        rows, columns = (slice(low, max(low, high)) for low, high in ends)
        name = f"{self.location} [{rows.start}:{rows.stop}, "
        name += f"{columns.start}:{columns.stop}]"
        # Tasks call this, whose errors must travel to the client.
        with portable_errors(), store_errors(name, "read"):
            found = self._read((rows, columns, slice(0, 2))[: 2 + self.pairs])
            return found.view(self.dtype).reshape(found.shape[:2])

    def stamp(self) -> str:
        """Return a text that differs after any part of the file is rewritten.

        For zarr every file of the store is looked up.
        """
        with store_errors(self.location, "read"):
            found = self.find(self.location, self.pairs)
        return f"{found.fingerprint} {found.changed}"

    def count_chunks(self) -> tuple[int, int]:
        """Count the chunks that an array has and could have.

        zarr and HDF5 read a missing chunk as the fill value, and zarr writes no chunk
        that holds nothing else. (1, 1) for other formats.
        """
        return 1, 1

    def provenance(self) -> dict[str, Any]:
        """Return the notes that jobs keep in an output; empty for other matrices.

        .npy and .npz files hold none.
        """
        return {}

    def __dask_tokenize__(self) -> tuple[str, ...]:
        kind = f"{self.shape}-{self.dtype.str}"
        stamp = f"{self.fingerprint} {self.changed}"
        return ("twom-stored-matrix", str(self.location), kind, stamp)

    @classmethod
    @abstractmethod
    def find(cls, location: Location, pairs: bool) -> Self:
        """Read the header or the metadata of an array, as a matrix."""

    @staticmethod
    @abstractmethod
    def read_array(location: Location) -> Any:
        """Read an array of any shape whole; its member is named if there are any."""

    @staticmethod
    def list_others(path: str) -> list[str]:
        """List what a container holds besides an output that was given no name."""
        return []

    @abstractmethod
    def _read(self, region: Region) -> Array:
        """Check that shape and dtype still hold, and read a rectangle.

        The result is a new C-ordered array, of as many axes as the file has and of its
        dtype in native byte order.
        """

    @classmethod
    def _of_array(
        cls, location: Location, array: Any, chunks: Any, stamp: Stamp, pairs: bool
    ) -> Self:
        """Take shape and dtype of an array; refuse one that is not a matrix."""
        # The shape of an HDF5 dataset may be None.
        shape, name = array.shape or (), repr(str(location))
        of_pairs, whole = shape[2:] == (2,), array.dtype.kind in "biu"
        if pairs and not of_pairs:
            problem = f"{name} has shape {shape}, but pairs have (rows, columns, 2)"
            remedy = _SAY_ARRAYS if shape[3:] else "Name another, or leave pairs out"
            raise StoreError(problem, remedy, "pairs-shape")
        if len(shape) != 2 + pairs or min(shape) < 0:
            problem = f"{name} has shape {shape}, but a matrix has two dimensions"
            remedy = _SAY_PAIRS if of_pairs and whole else _SAY_ARRAYS
            raise StoreError(problem, remedy, "matrix-shape")
        if not (whole if pairs else _DTYPE.fullmatch(array.dtype.str[1:])):
            floats = "" if pairs else ", float32, float64, complex64 or complex128"
            problem = (
                f"{name} has dtype {array.dtype}; allowed are bool, integers of up to "
                f"64 bits{floats}"
            )
            kind = "pairs" if pairs else "matrix"
            raise StoreError(problem, "Convert it first", f"{kind}-dtype")
        # h5py adds metadata to some dtypes; one that is made from `str` has none.
        dtype = np.dtype(array.dtype.str).newbyteorder("=")
        dtype = pair_dtype(dtype) if pairs else dtype
        m, n, *_ = map(int, shape)
        return cls(location, (m, n), dtype, chunks and chunks[:2], *stamp)

    def _check_unchanged(self, array: Any) -> None:
        """Refuse a file that was rewritten as another matrix after it was opened."""
        shape = (*self.shape, 2)[: 2 + self.pairs]
        if array.shape != shape or array.dtype.newbyteorder("=") != self.parts:
            problem = (
                f"{str(self.location)!r} was opened with shape {shape} and dtype "
                f"{self.parts} and now has {array.shape} and {array.dtype}"
            )
            raise StoreError(problem, "Open it again", "matrix-rewritten")


def list_names(names: Sequence[str]) -> str:
    """List some names, and count the rest."""
    listed = ", ".join(repr(name) for name in names[:_MAX_LISTED])
    left = len(names) - _MAX_LISTED
    return listed if left <= 0 else f"{listed} and {left} more"


def name_member(
    location: Location, find_arrays: Callable[..., list[str]], pairs: bool
) -> Location:
    """Fill in the name of a container's only matrix if the user names none.

    `find_arrays`: names the arrays of a number of axes, or all.
    """
    if location.member is not None:
        return location
    axes, name = 2 + pairs, repr(str(location))
    found = find_arrays(axes)
    if not found:
        others = list_names(find_arrays()) or "nothing"
        problem = f"{name} holds no {axes}-D array, but {others}"
        remedy = "" if pairs or not find_arrays(3) else _SAY_PAIRS
        raise StoreError(problem, remedy, "no-matrix")
    if len(found) > 1:
        problem = f"{name} holds {len(found)} {axes}-D arrays, {list_names(found)}"
        raise StoreError(problem, "Name one of them as 'path::member'", "many-matrices")
    return replace(location, member=found[0])


def no_such_member(location: Location, arrays: list[str]) -> StoreError:
    """Return the error for a member that is missing or not an array."""
    if location.member is None:
        problem = f"{str(location)!r} does not say which of its arrays is meant"
        problem += f": {list_names(arrays)}" if any(arrays) else ""
        return StoreError(problem, "Name it as 'path::member'", "no-member")
    held = list_names(arrays) if any(arrays) else "nothing that has a name"
    problem = f"{str(location)!r} names no array of the container, which holds {held}"
    remedy = "Name one of these" if any(arrays) else "Name the file alone"
    return StoreError(problem, remedy, "no-such-member")


def refuse_empty(location: Location, there: int, whole: int) -> None:
    """Refuse an array without any chunk: its folder was probably not copied whole."""
    if whole and not there:
        problem = f"all chunks of {str(location)!r} are missing"
        raise StoreError(problem, "Copy it again", "no-chunks")


def matrix_class(format: str) -> type[StoredMatrix]:
    """Import the class of a format when it is needed: zarr and h5py load slowly."""
    module = import_module({"npz": "._npy"}.get(format, f"._{format}"), __package__)
    return cast("type[StoredMatrix]", getattr(module, f"{format.title()}Matrix"))


def open_matrix(path: str | os.PathLike[str], pairs: bool = False) -> StoredMatrix:
    """Open a matrix in a ``.zarr``, ``.npy``, ``.npz`` or HDF5 file; read its header.

    `path`: the file, or ``path::member`` for an array inside a container, such as
    ``data.h5::A`` or ``store.zarr::group/A``; the only 2-D array needs no name; nor
    does the only 3-D one with `pairs`, whether a last axis holds real and imaginary
    parts of integers. Raises StoreError if the file is missing, unreadable, damaged or
    truncated, its suffix is unknown, or it does not hold a matrix of numbers.

    Chunks that a zarr store or an HDF5 file lacks are read as its fill value; a damaged
    chunk is found when it is read. Nothing is ever unpickled. Every read of a
    compressed ``.npz`` member unpacks all of it.
    """
    location = parse_location(path)
    with store_errors(location, "read"):
        if location.format != "zarr":
            tree.check_kind(location.path)
        return matrix_class(location.format).find(location, pairs)


def read_vector(path: str | os.PathLike[str]) -> Array:
    """Read all of an array of one dimension, from a file that `open_matrix` may open.

    Its dtype is for others to check. A matrix of one row or one column will do.
    """
    location = parse_location(path)
    with store_errors(location, "read"):
        if location.format != "zarr":
            tree.check_kind(location.path)
        found = np.asarray(matrix_class(location.format).read_array(location))
    if found.ndim == 2 and 1 in found.shape:
        found = found.ravel()
    if found.ndim != 1 or found.dtype.kind not in "biufc":
        problem = (
            f"{str(location)!r} is an array of shape {found.shape} and dtype "
            f"{found.dtype}, not a vector of numbers"
        )
        raise StoreError(problem, "Name another array", "vector-shape")
    return found.astype(found.dtype.newbyteorder("="), copy=False)
