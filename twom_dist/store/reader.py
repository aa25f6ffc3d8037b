"""Opening a matrix, of whatever format."""

import os
from importlib import import_module
from typing import cast

from . import _tree as tree
from ._errors import store_errors
from ._location import parse_location
from ._matrix import StoredMatrix


def matrix_class(format: str) -> type[StoredMatrix]:
    """Import the class of a format, once it is needed: zarr and h5py take long."""
    module = import_module(f"._{format}", __package__)
    return cast("type[StoredMatrix]", getattr(module, f"{format.title()}Matrix"))


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
    unpacked whole for every read, if not at once; jobs take up to 64 MiB of it. The
    checksum of one that is not compressed is compared by jobs alone, once.

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
        if location.format != "zarr":
            tree.check_kind(location.path)
        return matrix_class(location.format).find(location)
