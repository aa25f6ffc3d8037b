"""Large complex matrix products through int8: Caday's 2M algorithm on dask.

NumPy and CuPy arrays are multiplied at once, dask arrays lazily; see `twom_dist.gemm`.

multiply
    ``gemm``, ``herk``, ``syrk``, ``her2k``, ``syr2k``, and their BLAS-typed names, such
    as ``zgemm``
the same routines otherwise
    ``integers``: exactly; ``twofold``: to twice the digits, as two arrays; ``xarray``:
    of DataArrays, by the names of their dimensions
contract
    ``matmul``, ``tensordot``, ``einsum``, ``transpose``; ``use``, a block in which
    dask's and CuPy's products are these; ``numpy``: NumPy's names, with these products
plan and explain
    ``plan``, ``explain``; they return a ``Plan`` or an ``Explanation``
files
    ``multiply_files``, ``rank_k_files``; they return a ``JobSummary``
cluster and checks
    ``local_cluster``, ``doctor``, ``tune``, ``testing``, ``errors``
"""

import sys as _sys
from typing import TYPE_CHECKING

from . import errors, integers, testing
from .api import twofold, xarray
from .api.crossovers import tune
from .api.explain import explain
from .api.files import multiply_files, rank_k_files
from .api.gemm import cgemm, dgemm, gemm, sgemm, zgemm
from .api.plans import plan
from .api.updates import (
    cher2k,
    cherk,
    csyr2k,
    csyrk,
    dsyr2k,
    dsyrk,
    her2k,
    herk,
    ssyr2k,
    ssyrk,
    syr2k,
    syrk,
    zher2k,
    zherk,
    zsyr2k,
    zsyrk,
)
from .config import load_defaults as _load_defaults
from .contractions import einsum, matmul, numpy, tensordot, transpose
from .jobs import JobSummary
from .patching import use
from .plan import Plan
from .plan.explanation import Explanation
from .workers.diagnosis import doctor
from .workers.local import local_cluster

__version__ = "0.1.0"

__all__ = [
    "Explanation",
    "JobSummary",
    "Plan",
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
    "gemm",
    "her2k",
    "herk",
    "integers",
    "local_cluster",
    "matmul",
    "multiply_files",
    "numpy",
    "plan",
    "rank_k_files",
    "sgemm",
    "ssyr2k",
    "ssyrk",
    "syr2k",
    "syrk",
    "tensordot",
    "testing",
    "transpose",
    "tune",
    "twofold",
    "use",
    "xarray",
    "zgemm",
    "zher2k",
    "zherk",
    "zsyr2k",
    "zsyrk",
]

# Modules of this package by their names here: `from twom_dist.xarray import gemm`.
_sys.modules[f"{__name__}.numpy"] = numpy
_sys.modules[f"{__name__}.numpy.linalg"] = numpy.linalg
_sys.modules[f"{__name__}.twofold"] = twofold
_sys.modules[f"{__name__}.xarray"] = xarray

if not TYPE_CHECKING:
    # What autoray asks of a backend.
    from .contractions.backend import __getattr__ as __getattr__


def __dir__() -> list[str]:
    """List the public names, without the packages that they come from."""
    return sorted(__all__)


_load_defaults()
