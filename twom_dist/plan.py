"""Plans: what a product will cost, known and printable before anything runs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from numbers import Integral
from typing import Any

import numpy as np

from . import checks
from .accuracy import error_bound
from .checks import check_op, check_options, check_scalar, make_options, op_shape
from .config import bytes_setting, rate_setting
from .errors import MemoryLimitError, PlanError
from .memory import (
    CACHE_SHARE,
    PANEL_SHARE,
    USABLE_SHARE,
    WorkerMemory,
    predict_worker_memory,
)
from .tiles.grid import Chunks, Grid, group_panels, split_evenly
from .tiles.placement import choose_grid, summa_bytes
from .tiles.spec import ProductSpec, spec_of

# Tiles of a plan without chunks: large enough for tasks of some 0.1 s and more on one
# core, small enough for a few tiles on each worker.
LARGEST_TILE = 2048
TILES_PER_WORKER = 4
# Below, tasks are too short for what dask spends on each.
SMALLEST_TILE = 256


@dataclass(frozen=True)
class Cluster:
    """The workers that a plan is made for.

    Attributes
    ----------
    workers, threads : int
        Processes, and tasks that run side by side on each.
    memory : int or None
        Bytes of one worker; None is unlimited.
    """

    workers: int = 1
    threads: int = 1
    memory: int | None = None

    def __post_init__(self) -> None:
        for name in ("workers", "threads", "memory"):
            value = getattr(self, name)
            optional = name == "memory" and value is None
            if not optional and (not isinstance(value, Integral) or value < 1):
                raise PlanError(
                    f"{name}={value!r} given; it is a positive integer"
                    + (" of bytes" if name == "memory" else "")
                )


@dataclass(frozen=True)
class Plan:
    """The cost of a product; `str` prints it, `to_json` keeps it.

    Attributes
    ----------
    m, n, k : int
        ``op(A)`` is m x k, ``op(B)`` k x n.
    dtype, method : str
    num_moduli, modulus_bits : int, float
        Moduli, and log2 of their product; 0 for the native product.
    tiles : tuple of int
        (mt, nt, kt): tiles along m, n, k.
    tile_shape : tuple of int
        (mb, nb, kb): the largest tile.
    panels : int
        Tasks along k for each C tile.
    num_tasks : int
        All tasks of the product.
    num_int8_gemms : int
        int8 tile products.
    int8_operations : int
        ``2 m n k`` for each product of a plane.
    bytes_moved : int
        Bytes between workers where each input tile starts on one that needs it: the
        volume of a 2-D SUMMA.
    communication_ratio : float
        Time to move over time to multiply, at `twom-dist.link-bytes-per-second` and
        `twom-dist.int8-ops-per-second` a worker.
    workers : int
    worker_grid : tuple of int
        (pr, pc): C tile (i, j) belongs to worker (i mod pr, j mod pc).
    peak_worker_bytes : int
        Predicted peak on the fullest worker: inputs, outputs, encoded tiles and
        temporaries.
    cache_bytes : int
        Encoded tiles that a worker may keep.
    error_bound : float
        Bound of ``|dC_ij| / (||a_i|| ||b_j||)`` for alpha = 1, beta = 0.
    """

    m: int
    n: int
    k: int
    dtype: str
    method: str
    num_moduli: int
    modulus_bits: float
    tiles: tuple[int, int, int]
    tile_shape: tuple[int, int, int]
    panels: int
    num_tasks: int
    num_int8_gemms: int
    int8_operations: int
    bytes_moved: int
    communication_ratio: float
    workers: int
    worker_grid: tuple[int, int]
    peak_worker_bytes: int
    cache_bytes: int
    error_bound: float

    def to_json(self) -> str:
        """Return the plan as one line of JSON.

        Returns
        -------
        str
            The attributes by name.
        """
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        mt, nt, kt = self.tiles
        mb, nb, kb = self.tile_shape
        pr, pc = self.worker_grid
        moduli = f"{self.num_moduli} moduli, {self.modulus_bits:.1f} bits"
        rows = [
            ("product", f"{self.m} x {self.k} times {self.k} x {self.n}, {self.dtype}"),
            ("method", self.method + (f", {moduli}" if self.num_moduli else "")),
            ("error bound", f"{self.error_bound:.1e} ||a_i|| ||b_j||"),
            ("tiles", f"{mt} x {nt} of C, {kt} along k; up to {mb} x {nb} x {kb}"),
            ("tasks", f"{self.num_tasks}, {self.panels} panel(s) for each C tile"),
            (
                "int8 products",
                f"{self.num_int8_gemms} of tiles, {self.int8_operations:.3g} ops",
            ),
            ("workers", f"{self.workers}, as {pr} x {pc}"),
            ("moved", _bytes(self.bytes_moved)),
            ("communication / computation", f"{self.communication_ratio:.2g}"),
            ("peak of a worker", _bytes(self.peak_worker_bytes)),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _bytes(count: int) -> str:
    exponent = min(3, max(0, count.bit_length() - 1) // 10)
    return f"{count / 1024**exponent:.4g} {('B', 'KiB', 'MiB', 'GiB')[exponent]}"


def choose_tile(m: int, n: int, workers: int) -> int:
    """Choose a tile size that gives every worker a few C tiles."""
    tile = LARGEST_TILE
    wanted = TILES_PER_WORKER * workers if workers > 1 else 1
    while tile > SMALLEST_TILE and -(-m // tile) * -(-n // tile) < wanted:
        tile //= 2
    return tile


def fit_panels(
    grid_k: Chunks, mb: int, nb: int, itemsize: int, cluster: Cluster
) -> Any:
    """Group k tiles into panels that leave room for everything else."""
    budget = bytes_setting("panel-bytes")
    if cluster.memory is not None:
        budget = min(budget, int(cluster.memory * PANEL_SHARE) // cluster.threads)
    return group_panels(grid_k, mb, nb, itemsize, budget)


def fit_cache(cluster: Cluster) -> int:
    """Bytes of encoded tiles that a worker of this size may keep."""
    budget = bytes_setting("cache-bytes")
    return (
        budget
        if cluster.memory is None
        else min(budget, int(cluster.memory * CACHE_SHARE))
    )


def count_tasks(grid: Grid, spec: ProductSpec) -> int:
    """Count the tasks that `tiles.graph` makes of a product."""
    products = grid.mt * grid.nt * len(grid.panels)
    if spec.native:
        return products
    edges = grid.mt + grid.nt
    if spec.scaling == "norm":
        return products + edges * (1 if grid.kt == 1 else 2 * grid.kt + 2)
    return products + grid.mt * grid.nt + edges * (2 * grid.kt + 3)


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
    memory = predict_worker_memory(grid, spec, slots, cluster.threads, spec.cache_bytes)
    _check_memory(memory, cluster)
    products = 0 if spec.native else spec.system.num_products
    operations = products * 2 * m * n * k
    moved = summa_bytes(slots, grid.mt, grid.nt, a_bytes, b_bytes)
    move_seconds = moved / rate_setting("link-bytes-per-second")
    multiply_seconds = operations / rate_setting("int8-ops-per-second")
    return Plan(
        m=m,
        n=n,
        k=k,
        dtype=np.dtype(spec.dtype).name,
        method=spec.method,
        num_moduli=len(spec.moduli),
        modulus_bits=0.0 if spec.native else spec.system.modulus_bits,
        tiles=(grid.mt, grid.nt, grid.kt),
        tile_shape=(max(grid.m), max(grid.n), max(grid.k)),
        panels=len(grid.panels),
        num_tasks=count_tasks(grid, spec),
        num_int8_gemms=products * grid.mt * grid.nt * grid.kt,
        int8_operations=operations,
        bytes_moved=moved,
        communication_ratio=move_seconds / multiply_seconds if operations else 0.0,
        workers=cluster.workers,
        worker_grid=(slots.pr, slots.pc),
        peak_worker_bytes=memory.total,
        cache_bytes=spec.cache_bytes,
        error_bound=error_bound(None if spec.native else spec.system, k, spec.dtype),
    )


def _check_memory(memory: WorkerMemory, cluster: Cluster) -> None:
    if cluster.memory is not None and memory.total > cluster.memory * USABLE_SHARE:
        raise MemoryLimitError(
            f"{cluster.workers} workers of {_bytes(cluster.memory)} given and the "
            f"fullest needs {_bytes(memory.total)} ({_bytes(memory.inputs)} of inputs, "
            f"{_bytes(memory.outputs)} of results, {_bytes(memory.encoded)} encoded, "
            f"{_bytes(memory.temporaries)} in tasks) beside dask's own; give each at "
            f"least {_bytes(ceil(memory.total / USABLE_SHARE))}, use more workers, or "
            "smaller chunks"
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
    a, b = _Shaped("A", shape_a), _Shaped("B", shape_b)
    left, right = check_op(op_a, "op_a"), check_op(op_b, "op_b")
    (m, k), (k_b, n) = op_shape(a, left), op_shape(b, right)
    if k != k_b:
        raise PlanError(
            f"op(A) is {m} x {k} and op(B) is {k_b} x {n}; the inner dimensions must "
            "agree"
        )
    settings = make_options(options)
    system = check_options(settings, result, k)
    cluster = Cluster(workers, threads_per_worker, worker_memory)
    m_tiles, n_tiles, k_tiles = _tile_sizes(chunks, (m, n, k), workers)
    itemsize = result.itemsize
    panels = fit_panels(k_tiles, max(m_tiles), max(n_tiles), itemsize, cluster)
    spec = spec_of(
        system,
        dtype=result.str,
        k=k,
        op_a=left,
        op_b=right,
        alpha=check_scalar(alpha, "alpha", result),
        beta=check_scalar(beta, "beta", result),
        scaling=settings.scaling,
        engine=settings.engine,
        cache_bytes=fit_cache(cluster),
    )
    return make_plan(Grid(m_tiles, n_tiles, k_tiles, panels), spec, cluster)


class _Shaped:
    """A shape in the place of an array."""

    def __init__(self, name: str, shape: Sequence[int]) -> None:
        if len(shape) != 2 or any(int(s) != s or s < 0 for s in shape):
            raise PlanError(
                f"{name} has shape {tuple(shape)}; a matrix has two dimensions, rows "
                "and columns"
            )
        self.shape = (int(shape[0]), int(shape[1]))


def _tile_sizes(
    chunks: Any, sizes: tuple[int, int, int], workers: int
) -> tuple[Chunks, Chunks, Chunks]:
    """Expand chunks into tile sizes along m, n, k."""
    if chunks is None:
        chunks = choose_tile(sizes[0], sizes[1], workers)
    if isinstance(chunks, Integral):
        chunks = (int(chunks),) * 3
    if not isinstance(chunks, Sequence) or len(chunks) != 3:
        raise PlanError(
            f"chunks={chunks!r} given; allowed are a tile size, or three of them for "
            "m, n and k"
        )
    m, n, k = (_expand(c, s) for c, s in zip(chunks, sizes, strict=True))
    return m, n, k


def _expand(chunk: Any, size: int) -> Chunks:
    if isinstance(chunk, Integral):
        if int(chunk) < 1:
            raise PlanError(f"chunks={chunk} given; a tile has at least one row")
        return split_evenly(size, int(chunk))
    whole = isinstance(chunk, Sequence) and all(isinstance(c, Integral) for c in chunk)
    sizes = tuple(int(c) for c in chunk) if whole else ()
    if not sizes or min(sizes) < 0 or sum(sizes) != size:
        raise PlanError(
            f"chunks={chunk!r} given; they are whole numbers that add up to {size}"
        )
    return sizes
