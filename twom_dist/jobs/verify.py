"""A result, checked by its product with a random vector."""

from math import isfinite, sqrt
from typing import Any

import numpy as np

from ..accuracy import error_bound
from ..errors import KernelError
from ..store import Output
from ..testing import residual
from .job import Job

# Of the random vector: another one finds the same errors, as good as certainly.
_SEED = 2026


def measure_residual(job: Job, output: Output) -> tuple[float, float]:
    """Return the residual of a finished output, and its bound; refuse a wrong one."""
    found = residual(*_as_one_product(job, output), seed=_SEED)
    _, n, k = job.shape
    # Rounding errors of sums of n terms grow as the root of n, as good as certainly:
    # N. J. Higham and T. Mary, SIAM J. Sci. Comput. 41 (2019).
    roundings = 4 * sqrt(n + k) * float(np.finfo(np.float64).eps)
    bound = error_bound(job.system, k, job.dtype) + roundings
    if isfinite(found) and found > bound:
        problem = f"|C x - A (B x)| is {found:.1e} of |A| |B|, above {bound:.1e}"
        remedy = "Do not use this installation, and report what `twom-dist doctor` says"
        raise KernelError(problem, remedy, "wrong-result")
    return found, bound


def _as_one_product(job: Job, output: Output) -> tuple[Any, Any, Any]:
    """Write a routine as one product: [alpha X, beta C0] [Y, 1]^T = C.

    her2k is ``[alpha A, conj(alpha) B] [B, A]^H``.
    """
    import dask.array as da

    spec, routine = job.spec, job.spec.routine
    n, (mb, nb), kb = job.shape[1], output.tile, max(output.tile)
    index = da.arange(n, chunks=nb)

    def read(stored: Any, rows: int, columns: int, op: str = "N") -> Any:
        chunks = (rows, columns) if op == "N" else (columns, rows)
        meta = np.empty((0, 0), stored.dtype)
        x = da.from_array(stored, chunks=chunks, meta=meta).astype(job.dtype)
        return x if op == "N" else x.T if op == "T" else x.conj().T

    def turn(x: Any) -> Any:
        return x.conj().T if routine.hermitian else x.T

    def whole(x: Any) -> Any:
        """Take the triangle that is stored for both."""
        if not routine.triangle:
            return x
        below = index[:, np.newaxis] - index
        inner = da.where(below < 0 if spec.uplo == "upper" else below > 0, x, 0)
        diagonal = da.where(below == 0, x, 0)
        return inner + (diagonal.real if routine.hermitian else diagonal) + turn(inner)

    left = [spec.alpha * read(job.a, mb, kb, spec.op_a)]
    if not routine.triangle:
        right = [read(job.b, kb, nb, spec.op_b)]
    else:
        other = [read(x, mb, kb, spec.op_a) for x in (job.b, job.a)]
        if routine.sums:
            factor = np.conj(spec.alpha) if routine.hermitian else spec.alpha
            left.append(factor * other[0])
        right = [turn(x) for x in other[: len(left)]]
    if job.c is not None:
        left.append(spec.beta * whole(read(job.c, mb, nb)))
        right.append(da.eye(n, chunks=nb, dtype=job.dtype))
    return da.hstack(left), da.vstack(right), whole(read(output.open(), mb, nb))
