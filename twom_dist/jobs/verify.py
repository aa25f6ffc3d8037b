"""The check of a result by its product with a random vector."""

import warnings
from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from ..errors import KernelError
from ..moduli.accuracy import error_bound
from ..store import Output
from ..testing import row_residuals
from ..typing import Array
from .job import Job

# Seed of the random vector; any other finds the same errors, almost certainly.
_SEED = 2026
# Rows and columns that are read at once: 8 MiB of complex numbers.
_SIDE = 724


def measure_residual(
    job: Job, output: Output, shifts: Sequence[Array] | None = None
) -> tuple[float, float]:
    """Return the residual of a finished output, and its bound; refuse a wrong one.

    Both are relative, as `twom_dist.testing.row_residuals` says. Rows with entries that
    are not finite, or may overflow, are left out; NaN where no row is left. `shifts`:
    those of an equilibrated product, whose norms are those of the scaled matrices.
    """
    if 0 in output.shape:
        return 0.0, 0.0
    with warnings.catch_warnings():
        # NaN and Inf warn, in other threads as well.
        warnings.simplefilter("ignore", RuntimeWarning)
        rows = row_residuals(*_read(job, output, shifts), seed=_SEED)
    checked = rows[~np.isnan(rows)]
    found = float(checked.max()) if checked.size else float("nan")
    (_, n, k) = job.shape
    # Rounding errors of sums of n terms almost certainly grow as the root of n:
    # N. J. Higham and T. Mary, SIAM J. Sci. Comput. 41 (2019).
    roundings = 4 * sqrt(n + k) * float(np.finfo(np.float64).eps)
    bound = error_bound(job.system, k, job.dtype) + roundings
    if found > bound:
        raise KernelError(
            f"|C x - A (B x)| is {found:.1e} of |A| |B|, above {bound:.1e}: a disk, a "
            "processor or this installation is faulty",
            "Run the job again on other disks and workers; if that fails too, do not "
            "use this installation, and report the output of `twom-dist doctor`",
            "wrong-result",
        )
    return found, bound


def _read(
    job: Job, output: Output, shifts: Sequence[Array] | None
) -> tuple[Any, Any, Any]:
    """Make dask arrays of the products, of what is added, and of the result."""
    import dask.array as da

    spec, routine = job.spec, job.spec.routine
    # Whole tiles, and few of them: dask takes some 0.5 ms for each task.
    mb, nb = (tile * max(1, _SIDE // tile) for tile in output.tile)
    kb = max(mb, nb)

    def read(stored: Any, rows: int, columns: int, op: str = "N") -> Any:
        chunks = (rows, columns) if op == "N" else (columns, rows)
        meta = np.empty((0, 0), stored.dtype)
        x = da.from_array(stored, chunks=chunks, meta=meta).astype(job.dtype)
        return x if op == "N" else x.T if op == "T" else x.conj().T

    def whole(stored: Any, uplo: str) -> Any:
        x = read(stored, mb, nb)
        if not routine.triangle or uplo == "full":
            return x
        return _mirror(x, uplo == "upper", routine.hermitian)

    scale = None if shifts is None else np.ldexp(1.0, np.concatenate([*shifts]))
    a = read(job.a, mb, kb, spec.op_a)
    if job.diag is not None:
        a = a * job.diag
    if scale is not None:
        a = a / scale
    if routine.triangle:
        b = read(job.b, mb, kb, spec.op_a)
        if scale is not None:
            b = b * scale
        right, left = (x.conj().T if routine.hermitian else x.T for x in (b, a))
        products = [(spec.alpha, a, right)]
        if routine.sums:
            alpha = np.conj(spec.alpha) if routine.hermitian else spec.alpha
            products.append((alpha, b, left))
    else:
        b = read(job.b, kb, nb, spec.op_b)
        if scale is not None:
            b = b * scale[:, np.newaxis]
        products = [(spec.alpha, a, b)]
    # A full result uses the lower triangle of C0.
    used = "upper" if spec.uplo == "upper" else "lower"
    added = None if job.c is None else (spec.beta, whole(job.c, used))
    return products, added, whole(output, spec.uplo)


def _mirror(x: Any, upper: bool, hermitian: bool) -> Any:
    """Make a whole matrix from its stored triangle."""
    import dask.array as da

    beside = da.triu(x, 1) if upper else da.tril(x, -1)
    diagonal = da.tril(da.triu(x))
    if hermitian:
        return beside + beside.conj().T + diagonal.real
    return beside + beside.T + diagonal
