"""Large complex matrix products through int8: Caday's 2M algorithm on dask.

NumPy and CuPy arrays are multiplied at once, dask arrays lazily; see `twom_dist.gemm`.

multiply
    ``gemm``, ``herk``, ``syrk``, ``her2k``, ``syr2k``, and their BLAS-typed names, such
    as ``zgemm``; ``Product``, for calls of the same shapes
contract
    ``matmul``, ``tensordot``, ``einsum``, ``transpose``
exactly
    ``gaussian_matmul``; ``accuracy="exact"`` and ``pairs=True`` of the routines
plan and explain
    ``plan_gemm``, ``plan_herk``, ``plan_syrk``, ``plan_her2k``, ``plan_syr2k``,
    ``explain``; they return a ``Plan`` or an ``Explanation``
files
    ``multiply_files``, ``update_files``; they return a ``JobSummary``
cluster and checks
    ``local_cluster``, ``doctor``, ``testing``, ``errors``
"""

from . import errors, testing
from .api.blas import (
    cgemm,
    cher2k,
    cherk,
    csyr2k,
    csyrk,
    dgemm,
    dsyr2k,
    dsyrk,
    sgemm,
    ssyr2k,
    ssyrk,
    zgemm,
    zher2k,
    zherk,
    zsyr2k,
    zsyrk,
)
from .api.explain import explain
from .api.files import multiply_files, update_files
from .api.gemm import gemm
from .api.plans import plan_gemm, plan_her2k, plan_herk, plan_syr2k, plan_syrk
from .api.prepared import Product
from .api.updates import her2k, herk, syr2k, syrk
from .cluster import doctor, local_cluster
from .config import load_defaults as _load_defaults
from .contract import einsum, matmul, tensordot, transpose
from .integers.product import gaussian_matmul
from .jobs import JobSummary
from .plan import Plan
from .plan.explanation import Explanation

__version__ = "0.1.0"

__all__ = [
    "Explanation",
    "JobSummary",
    "Plan",
    "Product",
    "__version__",
    "cgemm",
    "cher2k",
    "cherk",
    "csyr2k",
    "csyrk",
    "dgemm",
    "doctor",
    "dsyr2k",
    "dsyrk",
    "einsum",
    "errors",
    "explain",
    "gaussian_matmul",
    "gemm",
    "her2k",
    "herk",
    "local_cluster",
    "matmul",
    "multiply_files",
    "plan_gemm",
    "plan_her2k",
    "plan_herk",
    "plan_syr2k",
    "plan_syrk",
    "sgemm",
    "ssyr2k",
    "ssyrk",
    "syr2k",
    "syrk",
    "tensordot",
    "testing",
    "transpose",
    "update_files",
    "zgemm",
    "zher2k",
    "zherk",
    "zsyr2k",
    "zsyrk",
]

_load_defaults()
