"""Contractions: matmul, tensordot, einsum and transpose, like NumPy's."""

from . import numpy
from .functions import einsum, matmul, tensordot, transpose

__all__ = ["einsum", "matmul", "numpy", "tensordot", "transpose"]
