"""Matrices in .npy, .npz and HDF5 files, and in local or remote zarr stores."""

from ._matrix import StoredMatrix, open_matrix, read_vector
from ._place import Place, Signs
from .output import Output
from .unfinished import Unfinished, find_unfinished

__all__ = [
    "Output",
    "Place",
    "Signs",
    "StoredMatrix",
    "Unfinished",
    "find_unfinished",
    "open_matrix",
    "read_vector",
]
