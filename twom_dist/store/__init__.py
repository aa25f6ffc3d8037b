"""Read and write matrices in ``.zarr``, ``.npy``, ``.npz`` and HDF5 files."""

from twom_dist.store.journal import Journal, open_journal
from twom_dist.store.reader import StoredMatrix, open_matrix
from twom_dist.store.writer import MatrixWriter, create_matrix, reopen_matrix

__all__ = [
    "Journal",
    "MatrixWriter",
    "StoredMatrix",
    "create_matrix",
    "open_journal",
    "open_matrix",
    "reopen_matrix",
]
