"""Plans of rank-k and rank-2k updates."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import checks
from ..checks import ROUTINES, Routine
from ..memory import WorkerMemory, predict_update_memory
from ..tiles.grid import Grid
from ..tiles.rank_k import RankSpec
from ..tiles.spec import spec_of
from ..tiles.triangle import triangle_map
from .chunks import Shaped, tile_sizes
from .cluster import Cluster, fit_cache, fit_memory, fit_panels
from .gemm import count_scaling
from .record import Plan, record_plan

_NAMES = {(r.hermitian, r.two): r.name for r in ROUTINES.values()}


def count_triangle(count: int) -> int:
    """Count the tiles on and below the diagonal of count x count."""
    return count * (count + 1) // 2


def count_update_tasks(grid: Grid, spec: RankSpec) -> int:
    """Count the tasks that `tiles.rank_graph` makes of an update.

    A computed tile under its key in the result is an alias, which is no task.
    """
    computed = count_triangle(grid.nt)
    # The other triangle: tiles that are mirrored, or empty.
    tasks = computed * len(grid.panels) + grid.nt**2 - computed
    if spec.product.native:
        return tasks
    rows = (2 if spec.two else 1) * grid.nt
    tasks += rows * count_scaling(grid, spec.product)
    if spec.product.scaling == "accurate":
        tasks += grid.nt**2 if spec.two else computed
    return tasks


def make_update_plan(grid: Grid, spec: RankSpec, cluster: Cluster) -> Plan:
    """Plan a rank-k or rank-2k update of known tiles, or refuse it.

    Parameters
    ----------
    grid : Grid
        Square: m and n alike.
    spec : RankSpec
    cluster : Cluster

    Raises
    ------
    MemoryLimitError
        Where the fullest worker would need more than `cluster.memory`.
    """
    n, _, k = grid.shape
    triangle = triangle_map(grid.nt, cluster.workers)

    def predict(cache_bytes: int) -> WorkerMemory:
        own = replace(spec, product=replace(spec.product, cache_bytes=cache_bytes))
        return predict_update_memory(grid, own, triangle, cluster.threads)

    memory, cache_bytes = fit_memory(predict, spec.product.cache_bytes, cluster)
    held = [
        sum(grid.n[i] for i in triangle.rows_of(slot))
        for slot in set(triangle.slots.values())
    ]
    on, below = _count_products(spec)
    # Entries of C on diagonal tiles, and of the tiles below.
    on_entries = sum(size**2 for size in grid.n)
    below_entries = (n**2 - on_entries) // 2
    below_tiles = count_triangle(grid.nt) - grid.nt
    row_bytes = (2 if spec.two else 1) * k * np.dtype(spec.product.dtype).itemsize
    return record_plan(
        grid,
        replace(spec.product, cache_bytes=cache_bytes),
        cluster.workers,
        routine=_NAMES[spec.hermitian, spec.two],
        uplo=spec.uplo,
        num_tasks=count_update_tasks(grid, spec),
        num_int8_gemms=(on * grid.nt + below * below_tiles) * grid.kt,
        int8_operations=2 * k * (on * on_entries + below * below_entries),
        # Every row starts on one of the workers that need it.
        bytes_moved=(sum(held) - n) * row_bytes,
        idle_workers=cluster.workers - len(held),
        worker_grid=None,
        held_fraction=max(held) / n if n else 0.0,
        peak_worker_bytes=memory.total,
    )


def _count_products(spec: RankSpec) -> tuple[int, int]:
    """int8 products of one tile along k: on the diagonal, and below it."""
    if spec.product.native:
        return 0, 0
    system = spec.product.system
    on = system.num_hermitian_products if spec.halves else system.num_products
    return on, (2 if spec.two else 1) * system.num_products


def _plan_update(
    routine: Routine,
    shapes: tuple[Shaped, Shaped | None],
    dtype: Any,
    chunks: Any,
    cluster: Cluster,
    scalars: tuple[complex, complex],
    op: str,
    uplo: str,
    options: dict[str, Any],
) -> Plan:
    """Check as the driver does, choose tiles and panels, and plan."""
    result = checks.product_dtype(dtype)
    alpha, beta = (
        checks.check_scalar(x, name, result)
        for x, name in zip(scalars, ("alpha", "beta"), strict=True)
    )
    checks.check_real_scalars(routine, alpha, beta)
    checks.check_update_names(routine, op, uplo)
    n, k = checks.check_update_shapes(*shapes, None, op)
    settings = checks.make_options(options)
    system = checks.check_options(settings, result, k)
    n_tiles, k_tiles = tile_sizes(
        chunks,
        {"n": n, "k": k},
        lambda tile: count_triangle(-(-n // tile)),
        cluster.workers,
    )
    nb = max(n_tiles)
    panels = fit_panels(k_tiles, nb, nb, result.itemsize, cluster)
    left, right = routine.ops(op)
    product = spec_of(
        system,
        dtype=result.str,
        k=k,
        op_a=left,
        op_b=right,
        alpha=alpha,
        scaling=settings.scaling,
        engine=settings.engine,
        cache_bytes=fit_cache(cluster),
    )
    spec = RankSpec(product, routine.hermitian, routine.two, uplo, beta)  # type: ignore[arg-type]
    return make_update_plan(Grid(n_tiles, n_tiles, k_tiles, panels), spec, cluster)


_TEXT = """Plan a call of `{name}` without arrays, dask or a cluster.

    Parameters
    ----------
    {shapes} : (int, int)
        As stored, before op.
    dtype : dtype
        float32, float64, complex64 or complex128.
    chunks : int, or (nb, kb) of int or tuple of int, optional
        Tile sizes along n and k; chosen where left out.
    workers, threads_per_worker : int
        Worker processes, and tasks that run side by side on each.
    worker_memory : int, optional
        Limit of one worker in bytes, of which 0.8 are planned with.
    alpha, beta, op, uplo
        As in `{name}`.
    **options
        accuracy, num_moduli, method, scaling, engine: as in `{name}`.

    Returns
    -------
    Plan
        Frozen; print it, or keep ``plan.to_json()``.

    Raises
    ------
    TypeError, PlanError, AccuracyError
        As `{name}` does.
    MemoryLimitError
        Where the plan does not fit `worker_memory`; the text says what would do.

    Examples
    --------
    >>> import twom_dist as td
    >>> plan = td.plan_{name}({example}, chunks=1024, workers=4)
    >>> gemm = td.plan_gemm((8192, 4096), (4096, 8192), chunks=1024, workers=4)
    >>> plan.tiles, plan.num_int8_gemms / gemm.num_int8_gemms
    ((8, 8, 4), {ratio})
"""


def _document(routine: Routine) -> str:
    """Write the numpydoc text of a planner."""
    two = routine.two
    ratios = {"herk": 0.5, "syrk": 0.5625, "her2k": 1.0, "syr2k": 1.0}
    return _TEXT.format(
        name=routine.name,
        shapes="shape_a, shape_b" if two else "shape_a",
        example=", ".join(["(8192, 4096)"] * (2 if two else 1)),
        ratio=ratios[routine.name],
    )


def _one(routine: Routine) -> Callable[..., Plan]:
    def plan(
        shape_a: Sequence[int],
        *,
        dtype: Any = "complex128",
        chunks: Any = None,
        workers: int = 1,
        threads_per_worker: int = 1,
        worker_memory: int | None = None,
        alpha: complex = 1,
        beta: complex = 0,
        op: str = "N",
        uplo: str = "full",
        **options: Any,
    ) -> Plan:
        cluster = Cluster(workers, threads_per_worker, worker_memory)
        shapes = (Shaped("A", shape_a), None)
        scalars = (alpha, beta)
        return _plan_update(
            routine, shapes, dtype, chunks, cluster, scalars, op, uplo, options
        )

    return _named(plan, routine)


def _two(routine: Routine) -> Callable[..., Plan]:
    def plan(
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
        op: str = "N",
        uplo: str = "full",
        **options: Any,
    ) -> Plan:
        cluster = Cluster(workers, threads_per_worker, worker_memory)
        shapes = (Shaped("A", shape_a), Shaped("B", shape_b))
        scalars = (alpha, beta)
        return _plan_update(
            routine, shapes, dtype, chunks, cluster, scalars, op, uplo, options
        )

    return _named(plan, routine)


def _named(function: Callable[..., Plan], routine: Routine) -> Callable[..., Plan]:
    function.__name__ = function.__qualname__ = f"plan_{routine.name}"
    function.__doc__ = _document(routine)
    return function


plan_herk, plan_syrk = _one(ROUTINES["herk"]), _one(ROUTINES["syrk"])
plan_her2k, plan_syr2k = _two(ROUTINES["her2k"]), _two(ROUTINES["syr2k"])
