"""Read and write matrices in ``.zarr``, ``.npy``, ``.npz`` and HDF5 files."""

from twom_dist.store.reader import StoredMatrix, open_matrix
from twom_dist.store.record import Record, create_record, open_record
from twom_dist.store.reopen import reopen_matrix
from twom_dist.store.writer import MatrixWriter, create_matrix

__all__ = [
    "MatrixWriter",
    "Record",
    "StoredMatrix",
    "create_matrix",
    "create_record",
    "open_matrix",
    "open_record",
    "reopen_matrix",
]
