"""Matrices in ``.zarr``, ``.npy``, ``.npz`` and HDF5 files."""

from twom_dist.store.output import Output
from twom_dist.store.reader import StoredMatrix, open_matrix
from twom_dist.store.unfinished import Unfinished, find_unfinished

__all__ = ["Output", "StoredMatrix", "Unfinished", "find_unfinished", "open_matrix"]
