"""A matrix that stays on disk, and what its format says and reads of it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError, portable_errors
from ._errors import store_errors
from ._location import Location
from ._region import Region, split_index
from ._tree import Stamp

# Of elements, without their byte order.
_DTYPE = re.compile(r"b1|[iu][1248]|f[48]|c8|c16")
_MAX_LISTED = 10


@dataclass(frozen=True)
class StoredMatrix(ABC):
    """A matrix in a file, read where and when it is indexed.

    Made by `open_matrix`. It holds no open file, so it can be pickled and read in any
    process that sees the same file system. Its methods raise StoreError where the file
    is gone. There is a subclass for each format.

    Attributes
    ----------
    location : Location
        Its path, absolute, its member, None where the file is the array, and its
        format: 'zarr', 'npy', 'npz' or 'hdf5'.
    shape : tuple of int
        Rows and columns.
    dtype : numpy.dtype
        Dtype of what is read, in native byte order.
    chunks : tuple of int or None
        Rows and columns of the pieces it is stored in; None where it is stored whole.
    fingerprint : str
        Size and modification time of the file, which a copy may keep; for zarr those
        of the metadata file, with shape and dtype.
    changed : str
        When the file, its name, owner or permissions last changed, which no copy keeps.
        Empty at a URL.
    """

    location: Location
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    chunks: tuple[int, int] | None
    fingerprint: str
    changed: str
    ndim: ClassVar = 2

    @property
    def path(self) -> str:
        """Absolute path of the file or directory store."""
        return self.location.path

    def __getitem__(self, index: tuple[slice, slice]) -> NDArray[Any]:
        """Read one region, of rows and columns with any steps, into a new array.

        Raises StoreError where the file is gone, damaged, or another matrix by now.
        """
        region, within = split_index(index, self.shape)
        rows, columns = (f"{x.start}:{x.stop}" for x in region)
        name = f"{self.location} [{rows}, {columns}]"
        # dask reads in a task.
        with portable_errors(), store_errors(name, "read"):
            return self._read(region)[within]

    def stamp(self) -> str:
        """Look at the file, and return what changes when any part of it is rewritten.

        For zarr that is every file of it, each of which is looked up.
        """
        with store_errors(self.location, "read"):
            found = self.find(self.location)
        return f"{found.fingerprint} {found.changed}"

    def count_chunks(self) -> tuple[int, int]:
        """Count the chunks of a zarr array, by their names, and those that could be.

        zarr reads the others as the fill value, and leaves out chunks that hold nothing
        else. (1, 1) for other formats.
        """
        return 1, 1

    def check_content(self) -> None:
        """Check what reading parts of it does not, for a job; reads an .npz whole."""
        return

    def provenance(self) -> dict[str, Any]:
        """Return what an output of `multiply_files` or `update_files` says of itself.

        Routine, arguments, moduli, bound, inputs and versions, and whether it is
        complete. Empty for other matrices, and for .npy and .npz, which keep no notes.
        """
        return {}

    def __dask_tokenize__(self) -> tuple[str, ...]:
        """Return what names the matrix in a dask graph."""
        kind = f"{self.shape}-{self.dtype.str}"
        stamp = f"{self.fingerprint} {self.changed}"
        return ("twom-stored-matrix", str(self.location), kind, stamp)

    @classmethod
    @abstractmethod
    def find(cls, location: Location) -> Self:
        """Read what a file says about the array."""

    @staticmethod
    def list_others(path: str) -> list[str]:
        """List what a container holds beside an output that was given no name."""
        return []

    @abstractmethod
    def _read(self, region: Region) -> NDArray[Any]:
        """Check that what was found still holds, and read a rectangle.

        Into a fresh C-ordered array of native dtype.
        """

    @classmethod
    def _checked(
        cls, location: Location, array: Any, chunks: Any, stamp: Stamp
    ) -> Self:
        """Take shape and dtype of an array, or refuse what is not a matrix."""
        # That of an HDF5 dataset may be None.
        shape = array.shape or ()
        if len(shape) != 2 or min(shape) < 0:
            raise StoreError(
                f"{str(location)!r} is an array of shape {shape}, and a matrix has two "
                "dimensions, none below 0",
                "Reshape it first or name another array",
                "matrix-shape",
            )
        if not _DTYPE.fullmatch(array.dtype.str[1:]):
            raise StoreError(
                f"{str(location)!r} has dtype {array.dtype}; allowed are bool, "
                "integers of up to 64 bits, float32, float64, complex64 or complex128",
                "Convert it first",
                "matrix-dtype",
            )
        # Without the metadata that HDF5 gives to some.
        dtype = np.dtype(array.dtype.str).newbyteorder("=")
        m, n = map(int, shape)
        return cls(location, (m, n), dtype, chunks, *stamp)

    def _check_unchanged(self, array: Any) -> None:
        """Refuse a file that was rewritten as another matrix after it was opened."""
        if array.shape != self.shape or array.dtype.newbyteorder("=") != self.dtype:
            raise StoreError(
                f"{str(self.location)!r} was opened as a {self.shape} matrix of "
                f"{self.dtype} and now has shape {array.shape} and dtype {array.dtype}",
                "Open it again",
                "matrix-rewritten",
            )


def list_names(names: Sequence[str]) -> str:
    """List some names, and count the rest."""
    listed = ", ".join(repr(name) for name in names[:_MAX_LISTED])
    left = len(names) - _MAX_LISTED
    return listed if left <= 0 else f"{listed} and {left} more"


def name_member(location: Location, list_matrices: Callable[[], list[str]]) -> Location:
    """Name the one 2-D array of a container, where none is named."""
    if location.member is not None:
        return location
    found, name = list_matrices(), repr(str(location))
    if not found:
        raise StoreError(f"{name} holds no 2-D array", "", "no-matrix")
    if len(found) > 1:
        raise StoreError(
            f"{name} holds {len(found)} 2-D arrays, {list_names(found)}",
            "Name one of them as 'path::member'",
            "many-matrices",
        )
    return replace(location, member=found[0])


def refuse_member(location: Location, matrices: list[str]) -> StoreError:
    """Return the error for a member that is not there or is no array."""
    held = list_names(matrices) if any(matrices) else "nothing that has a name"
    problem = f"{str(location)!r} names no array of the container, which holds {held}"
    return StoreError(problem, "Name another array, or none", "no-such-member")
