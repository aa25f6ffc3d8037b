"""Matrices that stay on disk and are read one rectangle at a time."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twom_dist.errors import portable_errors
from twom_dist.store._checks import Description, check_dtype, check_shape, store_errors
from twom_dist.store._formats import FORMAT_TABLE
from twom_dist.store._location import parse_location
from twom_dist.store._region import region_shape, split_index


@dataclass(frozen=True)
class StoredMatrix(Description):
    """A matrix in a file, read where and when it is indexed.

    Made by `open_matrix`. It holds no open file, so it can be pickled and read in any
    process that sees the same file system.

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
        Changes when the file is rewritten: its size and modification time; for zarr
        those of the metadata file, with shape and dtype.
    """

    shape: tuple[int, int]
    chunks: tuple[int, int] | None

    @property
    def path(self) -> str:
        """Absolute path of the file or directory store."""
        return self.location.path

    @property
    def member(self) -> str | None:
        """Name of the array inside it."""
        return self.location.member

    @property
    def format(self) -> str:
        """Format of the file."""
        return self.location.format

    @property
    def ndim(self) -> int:
        """The number of dimensions, always 2."""
        return 2

    def __getitem__(self, index: tuple[slice, slice]) -> NDArray[Any]:
        """Read one region, of rows and columns with any steps, into a new array.

        Raises StoreError where the file is gone, damaged, or another matrix by now.
        """
        region, within = split_index(index, self.shape)
        # Not every format can map or select nothing.
        if 0 in region_shape(region):
            return np.empty(region_shape(region), self.dtype)[within]
        rows, columns = (f"{x.start}:{x.stop}" for x in region)
        name = f"{self.location} [{rows}, {columns}]"
        # dask reads in a task.
        with portable_errors(), store_errors(name, "read"):
            return FORMAT_TABLE[self.format].read(self, region)[within]

    def stamp(self) -> str:
        """Look at the file, and return what changes when any part of it is rewritten.

        For zarr that is every file of it, each of which is looked up.

        Raises
        ------
        StoreError
            The file is gone.
        """
        with store_errors(self.location, "read"):
            return FORMAT_TABLE[self.format].stamp(self.location)

    def count_chunks(self) -> tuple[int, int]:
        """Count the chunks that are stored, by their names, and those that could be.

        zarr reads the others as its fill value, and leaves out chunks that hold nothing
        else. (1, 1) for the other formats, whose parts cannot be missing.

        Raises
        ------
        StoreError
            The file is gone.
        """
        with store_errors(self.location, "read"):
            return FORMAT_TABLE[self.format].count_chunks(self.location)

    def provenance(self) -> dict[str, Any]:
        """Return what an output of `multiply_files` or `update_files` says of itself.

        Routine, arguments, moduli, bound, inputs and versions, and whether it is
        complete. Empty for other matrices, and for .npy and .npz, which keep no notes.

        Raises
        ------
        StoreError
            The file is gone.
        """
        with store_errors(self.location, "read"):
            return FORMAT_TABLE[self.format].provenance(self.location)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        """Return what names the matrix in a dask graph."""
        kind = f"{self.format}-{self.shape}-{self.dtype.str}"
        member = () if self.member is None else (self.member,)
        return ("twom-stored-matrix", self.path, kind, self.fingerprint, *member)


def open_matrix(path: str | os.PathLike[str]) -> StoredMatrix:
    """Open a matrix in a ``.zarr``, ``.npy``, ``.npz`` or HDF5 file.

    Only headers are read, and checked: the elements follow when it is indexed.

    Parameters
    ----------
    path : str or os.PathLike
        The file, or ``path::member`` for an array inside a container, such as
        ``data.h5::A``, ``pair.npz::A`` or ``store.zarr::group/A``. The member may be
        left out where the container holds one 2-D array.

    Returns
    -------
    StoredMatrix
        The matrix, of bool, integers, float32, float64, complex64 or complex128.

    Raises
    ------
    StoreError
        The file is missing, unreadable, damaged or truncated, its suffix is not
        known, or it does not hold a matrix of such a dtype.

    Notes
    -----
    A zarr store may lack chunks, which then hold its fill value; a damaged chunk is
    found when it is read. Nothing is ever unpickled. A compressed ``.npz`` member is
    decompressed whole for every read.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from twom_dist.store import open_matrix
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "A.npy")
    ...     np.save(path, np.arange(6).reshape(2, 3))
    ...     A = open_matrix(path)
    ...     A.shape, A[0:2, 1:3].tolist()
    ((2, 3), [[1, 2], [4, 5]])
    """
    location = parse_location(path)
    with store_errors(location, "read"):
        found = FORMAT_TABLE[location.format].describe(location)
    name = str(found.location)
    shape = check_shape(name, found.shape)
    dtype = check_dtype(name, found.dtype)
    chunks = None if found.chunks is None else (found.chunks[0], found.chunks[1])
    return StoredMatrix(found.location, shape, dtype, chunks, found.fingerprint)
