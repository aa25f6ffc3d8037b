"""Large complex matrix products through int8: Caday's 2M algorithm on dask.

``gemm`` and its BLAS-typed names take NumPy arrays (computed at once) and dask arrays
(lazy); see `twom_dist.gemm`.
"""

from . import errors, testing
from .blas import cgemm, dgemm, gemm, sgemm, zgemm
from .config import load_defaults as _load_defaults
from .plan import Plan, plan_gemm

__version__ = "0.1.0"

__all__ = [
    "Plan",
    "__version__",
    "cgemm",
    "dgemm",
    "errors",
    "gemm",
    "plan_gemm",
    "sgemm",
    "testing",
    "zgemm",
]

_load_defaults()
