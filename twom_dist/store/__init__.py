"""Matrices in .npy, .npz and HDF5 files, and in zarr stores; these also at URLs."""

from ._matrix import StoredMatrix, open_matrix, read_vector
from .output import Output
from .work_folder import Signs, Unfinished, find_unfinished
