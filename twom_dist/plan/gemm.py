"""Plans of products."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import checks
from ..errors import PlanError
from ..memory import WorkerMemory, predict_worker_memory
from ..tiles.grid import Grid
from ..tiles.placement import choose_grid, summa_bytes
from ..tiles.spec import ProductSpec, spec_of
from .chunks import Shaped, tile_sizes
from .cluster import Cluster, fit_cache, fit_memory, fit_panels
from .record import Plan, record_plan


def count_tasks(grid: Grid, spec: ProductSpec) -> int:
    """Count the tasks that `tiles.graph` makes of a product."""
    products = grid.mt * grid.nt * len(grid.panels)
    bounds = grid.mt * grid.nt if spec.scaling == "accurate" else 0
    edges = grid.mt + grid.nt
    return products + (0 if spec.native else edges * count_scaling(grid, spec) + bounds)


def count_scaling(grid: Grid, spec: ProductSpec) -> int:
    """Count the tasks that find the exponents of one row of tiles, without bounds."""
    if spec.scaling == "norm":
        return 1 if grid.kt == 1 else 2 * grid.kt + 2
    return 2 * grid.kt + 3


def make_plan(grid: Grid, spec: ProductSpec, cluster: Cluster) -> Plan:
    """Plan a product of known tiles, or refuse what no worker can hold.

    Raises
    ------
    MemoryLimitError
        Where the fullest worker would need more than `cluster.memory`.
    """
    m, n, k = grid.shape
    itemsize = np.dtype(spec.dtype).itemsize
    a_bytes, b_bytes = m * k * itemsize, k * n * itemsize
    slots = choose_grid(cluster.workers, grid.mt, grid.nt, a_bytes, b_bytes)

    def predict(cache_bytes: int) -> WorkerMemory:
        own = replace(spec, cache_bytes=cache_bytes)
        return predict_worker_memory(grid, own, slots, cluster.threads)

    memory, cache_bytes = fit_memory(predict, spec.cache_bytes, cluster)
    products = 0 if spec.native else spec.system.num_products
    return record_plan(
        grid,
        replace(spec, cache_bytes=cache_bytes),
        cluster.workers,
        routine="gemm",
        uplo=None,
        num_tasks=count_tasks(grid, spec),
        num_int8_gemms=products * grid.mt * grid.nt * grid.kt,
        int8_operations=products * 2 * m * n * k,
        bytes_moved=summa_bytes(slots, grid.mt, grid.nt, a_bytes, b_bytes),
        idle_workers=cluster.workers - min(slots.pr, grid.mt) * min(slots.pc, grid.nt),
        worker_grid=(slots.pr, slots.pc),
        held_fraction=None,
        peak_worker_bytes=memory.total,
    )


def plan_gemm(
    shape_a: Sequence[int],
    shape_b: Sequence[int],
    *,
    dtype: Any = "complex128",
    chunks: Any = None,
    workers: int = 1,
    threads_per_worker: int = 1,
    worker_memory: int | None = None,
    alpha: complex = 1,
    beta: complex = 0,
    op_a: str = "N",
    op_b: str = "N",
    **options: Any,
) -> Plan:
    """Plan ``alpha op(A) op(B) + beta C`` without arrays, dask or a cluster.

    Parameters
    ----------
    shape_a, shape_b : (int, int)
        Shapes of A and B as stored, before op.
    dtype : dtype
        float32, float64, complex64 or complex128.
    chunks : int, or (mb, nb, kb) of int or tuple of int, optional
        Tile sizes along m, n and k; chosen where left out.
    workers, threads_per_worker : int
        Worker processes, and tasks that run side by side on each.
    worker_memory : int, optional
        Limit of one worker in bytes, of which 0.8 are planned with.
    alpha, beta : number
        As in `gemm`.
    op_a, op_b : {"N", "T", "C"}
        As in `gemm`.
    **options
        accuracy, num_moduli, method, scaling, engine: as in `gemm`.

    Returns
    -------
    Plan
        Frozen; print it, or keep ``plan.to_json()``.

    Raises
    ------
    PlanError, AccuracyError
        As `gemm` does.
    MemoryLimitError
        Where the plan does not fit `worker_memory`; the text says what would do.

    Examples
    --------
    >>> import twom_dist as td
    >>> plan = td.plan_gemm((8192, 8192), (8192, 8192), chunks=1024, workers=4)
    >>> plan.num_moduli, plan.tiles, plan.worker_grid
    (16, (8, 8, 8), (2, 2))
    """
    result = checks.product_dtype(dtype)
    a, b = Shaped("A", shape_a), Shaped("B", shape_b)
    left, right = checks.check_op(op_a, "op_a"), checks.check_op(op_b, "op_b")
    (m, k), (k_b, n) = checks.op_shape(a, left), checks.op_shape(b, right)
    if k != k_b:
        raise PlanError(
            f"op(A) is {m} x {k} and op(B) is {k_b} x {n}; the inner dimensions must "
            "agree"
        )
    settings = checks.make_options(options)
    system = checks.check_options(settings, result, k)
    cluster = Cluster(workers, threads_per_worker, worker_memory)
    m_tiles, n_tiles, k_tiles = tile_sizes(
        chunks,
        {"m": m, "n": n, "k": k},
        lambda tile: -(-m // tile) * -(-n // tile),
        workers,
    )
    itemsize = result.itemsize
    panels = fit_panels(k_tiles, max(m_tiles), max(n_tiles), itemsize, cluster)
    spec = spec_of(
        system,
        dtype=result.str,
        k=k,
        op_a=left,
        op_b=right,
        alpha=checks.check_scalar(alpha, "alpha", result),
        beta=checks.check_scalar(beta, "beta", result),
        scaling=settings.scaling,
        engine=settings.engine,
        cache_bytes=fit_cache(cluster),
    )
    return make_plan(Grid(m_tiles, n_tiles, k_tiles, panels), spec, cluster)
