"""Matrices in .npy, .npz and HDF5 files, and in zarr stores here and elsewhere."""

from twom_dist.store.output import Output
from twom_dist.store.reader import StoredMatrix, open_matrix
from twom_dist.store.unfinished import Place, Unfinished, find_unfinished

__all__ = [
    "Output",
    "Place",
    "StoredMatrix",
    "Unfinished",
    "find_unfinished",
    "open_matrix",
]
