"""Opening of stored matrices in every format."""

import os
from importlib import import_module
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from . import _tree as tree
from ._errors import store_errors
from ._location import parse_location
from ._matrix import StoredMatrix


def matrix_class(format: str) -> type[StoredMatrix]:
    """Import the class of a format when it is needed: zarr and h5py load slowly."""
    module = import_module({"npz": "._npy"}.get(format, f"._{format}"), __package__)
    return cast("type[StoredMatrix]", getattr(module, f"{format.title()}Matrix"))


def open_matrix(path: str | os.PathLike[str]) -> StoredMatrix:
    """Open a matrix in a ``.zarr``, ``.npy``, ``.npz`` or HDF5 file.

    Parameters
    ----------
    path : str or os.PathLike
        The file, or ``path::member`` for an array inside a container, such as
        ``data.h5::A`` or ``store.zarr::group/A``. The member may be omitted if the
        container holds only one 2-D array.

    Returns
    -------
    StoredMatrix
        Only its header is read; its elements are when it is indexed.

    Raises
    ------
    StoreError
        The file is missing, unreadable, damaged or truncated, its suffix is unknown,
        or it does not hold a matrix of numbers.

    Notes
    -----
    Chunks that a zarr store or an HDF5 file lacks are read as its fill value; a damaged
    chunk is found when it is read. Nothing is ever unpickled. Every read of a
    compressed ``.npz`` member unpacks all of it, piece by piece.
    """
    location = parse_location(path)
    with store_errors(location, "read"):
        if location.format != "zarr":
            tree.check_kind(location.path)
        return matrix_class(location.format).find(location)


def read_vector(path: str | os.PathLike[str]) -> NDArray[Any]:
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
        raise StoreError(
            f"{str(location)!r} is an array of shape {found.shape} and dtype "
            f"{found.dtype}, not a vector of numbers",
            "Name another array",
            "vector-shape",
        )
    return found.astype(found.dtype.newbyteorder("="), copy=False)
