"""A result, checked by its product with a random vector."""

import warnings
from math import sqrt
from typing import Any

import numpy as np

from ..accuracy import error_bound
from ..errors import KernelError
from ..store import Output
from ..testing import row_residuals
from .job import Job

# Of the random vector: another one finds the same errors, as good as certainly.
_SEED = 2026


def measure_residual(job: Job, output: Output) -> tuple[float, float]:
    """Return the residual of a finished output, and its bound; refuse a wrong one.

    Both are relative, as `twom_dist.testing.row_residuals` says. Rows with entries that
    are not finite, or may overflow, are left out; NaN where no row is left.
    """
    if 0 in output.shape:
        return 0.0, 0.0
    with warnings.catch_warnings():
        # Of NaN and Inf, also in other threads.
        warnings.simplefilter("ignore", RuntimeWarning)
        rows = row_residuals(*_read(job, output), seed=_SEED)
    checked = rows[~np.isnan(rows)]
    found = float(checked.max()) if checked.size else float("nan")
    (_, n, k) = job.shape
    # Rounding errors of sums of n terms grow as the root of n, as good as certainly:
    # N. J. Higham and T. Mary, SIAM J. Sci. Comput. 41 (2019).
    roundings = 4 * sqrt(n + k) * float(np.finfo(np.float64).eps)
    bound = error_bound(job.system, k, job.dtype) + roundings
    if found > bound:
        raise KernelError(
            f"|C x - A (B x)| is {found:.1e} of |A| |B|, above {bound:.1e}",
            "Do not use this installation, and report the output of `twom-dist doctor`",
            "wrong-result",
        )
    return found, bound


def _read(job: Job, output: Output) -> tuple[Any, Any, Any]:
    """Make dask arrays of the products, of what is added, and of the result."""
    import dask.array as da

    spec, dtype = job.spec, job.dtype
    routine, (mb, nb), kb = spec.routine, output.tile, max(output.tile)

    def read(stored: Any, rows: int, columns: int, op: str = "N") -> Any:
        chunks = (rows, columns) if op == "N" else (columns, rows)
        meta = np.empty((0, 0), stored.dtype)
        x = da.from_array(stored, chunks=chunks, meta=meta).astype(dtype)
        return x if op == "N" else x.T if op == "T" else x.conj().T

    def whole(x: Any, uplo: str) -> Any:
        """Take the triangle that is stored for both."""
        if not routine.triangle or uplo == "full":
            return x
        index = da.arange(x.shape[0], chunks=nb)
        rows, columns = index[:, np.newaxis], index[np.newaxis, :]
        inside = rows < columns if uplo == "upper" else rows > columns
        inner = da.where(inside, x, 0)
        diagonal = da.where(rows == columns, x, 0)
        if routine.hermitian:
            return inner + diagonal.real + inner.conj().T
        return inner + diagonal + inner.T

    a = read(job.a, mb, kb, spec.op_a)
    if routine.triangle:
        b = read(job.b, mb, kb, spec.op_a)
        right, left = (x.conj().T if routine.hermitian else x.T for x in (b, a))
        products = [(spec.alpha, a, right)]
        if routine.sums:
            alpha = np.conj(spec.alpha) if routine.hermitian else spec.alpha
            products.append((alpha, b, left))
    else:
        products = [(spec.alpha, a, read(job.b, kb, nb, spec.op_b))]
    # The lower triangle of C0 is what makes a full result.
    used = "upper" if spec.uplo == "upper" else "lower"
    added = None
    if job.c is not None:
        added = spec.beta, whole(read(job.c, mb, nb), used)
    return products, added, whole(read(output.open(), mb, nb), spec.uplo)
