"""Plans of the routines: what a call will cost, before anything runs."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, Unpack, cast

from ..interop.dlpack import adopt
from ..interop.stored import is_on_disk, outline
from ..interop.xarray import as_arrays
from ..plan import Cluster, Plan, make_plan, tile_sizes
from ..plan.memory import MemoryBudget
from ..problem import problem
from ..problem.dtypes import letter_of
from ..problem.exact import check_pairs, is_asked
from ..problem.matrices import Header, as_matrix, check_single, common_family, is_dask
from ..problem.pairs import PairHeader, as_pairs, header_of
from ..problem.problem import Problem
from ..problem.scalars import as_number
from ..run.client import current_cluster
from ..tiles.grid import Chunks
from ..tiles.routine import ROUTINES
from ..typing import Op, Uplo
from .signatures import PlanOptions

F = TypeVar("F", bound=Callable[..., Plan])
# Sizes of tiles: one for all dimensions, or one or all of its sizes for each.
ChunksLike = int | Sequence[int | Sequence[int]]


def plan_gemm(
    A: Any,
    B: Any,
    *,
    dtype: Any = None,
    chunks: ChunksLike | None = None,
    workers: int | None = None,
    threads_per_worker: int | None = None,
    worker_memory: int | None = None,
    alpha: complex = 1,
    beta: complex = 0,
    op_a: Op = "N",
    op_b: Op = "N",
    **options: Unpack[PlanOptions],
) -> Plan:
    """Plan ``alpha op(A) op(B) + beta C``; nothing is read or computed.

    Parameters
    ----------
    A, B : (int, int) or array
        Shapes, or arrays that `gemm` takes, of A and B as stored, before op; of a
        stack, those of one matrix.
    dtype : dtype, optional
        float32, float64, complex64 or complex128, and of exact products that of the
        integers. Default: that of the arrays; complex128 for shapes.
    chunks : int, or (mb, nb, kb) of int or tuple of int, optional
        Tile sizes along m, n and k. Default: the chunks of dask arrays; else chosen.
    workers : int, optional
        Worker processes. Default: one.
    threads_per_worker : int, optional
        Tasks that run side by side on each. Default: one.
    worker_memory : int, optional
        Memory limit of each worker in bytes, of which 0.8 are planned with. Default:
        unlimited. Where none of these three is given, dask arrays are planned for the
        workers of the current client.
    alpha, beta : number
        As in `gemm`.
    op_a, op_b : {"N", "T", "C"}
        As in `gemm`.
    **options
        dim, accuracy, num_moduli, method, out, engine, pairs: as in the routine.

    Returns
    -------
    Plan
        Print it, or keep ``plan.to_json()``.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError
        As `gemm`.
    MemoryLimitError
        If the plan does not fit into `worker_memory`; the text says what would.

    Examples
    --------
    >>> import twom_dist as td
    >>> plan = td.plan_gemm((8192, 8192), (8192, 8192), chunks=1024, workers=4)
    >>> plan.num_moduli, plan.tiles, plan.worker_grid
    (16, (8, 8, 8), (2, 2))
    """
    return _plan("gemm", locals())


def plan_herk(
    A: Any,
    *,
    dtype: Any = None,
    chunks: ChunksLike | None = None,
    workers: int | None = None,
    threads_per_worker: int | None = None,
    worker_memory: int | None = None,
    alpha: complex = 1,
    beta: complex = 0,
    op: Op = "N",
    uplo: Uplo = "full",
    **options: Unpack[PlanOptions],
) -> Plan:
    """Plan ``alpha A A^H + beta C``; nothing is read or computed.

    Parameters
    ----------
    A : (int, int) or array
        As in `plan_gemm`.
    dtype : dtype, optional
    chunks : int, or (nb, kb) of int or tuple of int, optional
        Tile sizes along n and k.
    workers, threads_per_worker, worker_memory : int, optional
        As in `plan_gemm`.
    alpha, beta : number
    op, uplo : str
        As in `herk`, like alpha and beta.
    **options
        dim, accuracy, num_moduli, method, out, engine: as in the routine.

    Returns
    -------
    Plan
        As from `plan_gemm`.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `plan_gemm`.

    Examples
    --------
    >>> import twom_dist as td
    >>> plan = td.plan_herk((8192, 4096), chunks=1024, workers=4)
    >>> gemm = td.plan_gemm((8192, 4096), (4096, 8192), chunks=1024, workers=4)
    >>> plan.tiles, plan.num_int8_gemms / gemm.num_int8_gemms
    ((8, 8, 4), 0.5)
    """
    return _plan("herk", locals())


def plan_her2k(
    A: Any,
    B: Any,
    *,
    dtype: Any = None,
    chunks: ChunksLike | None = None,
    workers: int | None = None,
    threads_per_worker: int | None = None,
    worker_memory: int | None = None,
    alpha: complex = 1,
    beta: complex = 0,
    op: Op = "N",
    uplo: Uplo = "full",
    **options: Unpack[PlanOptions],
) -> Plan:
    """Plan ``alpha A B^H + conj(alpha) B A^H + beta C``; nothing is computed.

    Parameters
    ----------
    A, B : (int, int) or array
        As in `plan_gemm`.
    dtype : dtype, optional
    chunks : int, or (nb, kb) of int or tuple of int, optional
        Tile sizes along n and k.
    workers, threads_per_worker, worker_memory : int, optional
        As in `plan_gemm`.
    alpha, beta : number
    op, uplo : str
        As in `her2k`, like alpha and beta.
    **options
        dim, accuracy, num_moduli, method, out, engine: as in the routine.

    Returns
    -------
    Plan
        As from `plan_gemm`.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError, MemoryLimitError
        As `plan_gemm`.
    """
    return _plan("her2k", locals())


def _like(plan: F, name: str) -> F:
    """Make the planner of the symmetric routine from that of the Hermitian one."""
    own = plan.__name__.removeprefix("plan_")

    @wraps(plan)
    def symmetric(*args: Any, **kwargs: Any) -> Plan:
        bound = inspect.signature(plan).bind(*args, **kwargs)
        bound.apply_defaults()
        return _plan(name, bound.arguments)

    symmetric.__name__ = symmetric.__qualname__ = f"plan_{name}"
    text = (inspect.getdoc(plan) or "").partition("\nExamples\n")[0].rstrip() + "\n"
    text = text.replace(ROUTINES[own].formula, ROUTINES[name].formula)
    symmetric.__doc__ = text.replace(f"`{own}`", f"`{name}`")
    return cast(F, symmetric)


plan_syrk = _like(plan_herk, "syrk")
plan_syr2k = _like(plan_her2k, "syr2k")


def _plan(name: str, given: dict[str, Any]) -> Plan:
    """Pose the problem of the headers, choose tiles, and plan."""
    routine, given = ROUTINES[name], dict(given)
    a, b = given.pop("A"), given.pop("B", None)
    problem.check_matrices(routine, a, b)
    dtype, chunks = given.pop("dtype"), given.pop("chunks")
    on = [given.pop(x) for x in ("workers", "threads_per_worker", "worker_memory")]
    options = {**given.pop("options")}
    dim = options.pop("dim", None)
    problem.check_names(routine, options)
    letter = None if dtype is None or is_asked(options) else letter_of(dtype)
    if dim is not None:
        a, b = as_arrays(routine, dim, {**given, **options}, a, b)
    a, b = (outline(x, y) if is_on_disk(x) else x for x, y in ((a, "A"), (b, "B")))
    (a, b), _ = adopt(labelled=True, A=a, B=b)
    arrays = {x: y for x, y in (("A", a), ("B", b)) if hasattr(y, "dtype")}
    family = common_family(**arrays) if arrays else None
    whole = a, b
    if check_pairs(options):
        a, b = (
            header_of(as_matrix(x, y), y) if hasattr(x, "dtype") else x
            for x, y in ((a, "A"), (b, "B"))
        )
    # A shape beside an array is that of an array of its dtype.
    known = dtype or next((x.dtype for x in arrays.values()), "complex128")
    a, b = (_header(x, name, known) for x, name in ((a, "A"), (b, "B")))
    beta = as_number(given.pop("beta"), "beta")
    given |= {"letter": letter, "family": family, **options}
    posed = problem.of_headers(routine, a, b, None, **given)
    if beta != 0:
        c = Header("C", posed.shape[:2], posed.dtype)
        posed = problem.of_headers(routine, a, b, c, beta=beta, **given)
    lazy_inputs = any(map(is_dask, whole))
    cluster = _cluster(*on, engine=posed.spec.engine if lazy_inputs else None)
    if lazy_inputs and chunks is None:
        from ..run.lazy import align, plan_aligned

        if check_pairs(options):
            a, b = (None if x is None else as_pairs(x, "A or B") for x in whole)
            posed = replace(posed, a=a, b=a if b is None else b)
        left, right, _ = align(replace(posed, c=None))
        return plan_aligned(posed.spec, left, right, cluster)
    return make_plan(posed.spec, _tiles(posed, chunks, cluster), cluster)


def _header(x: Any, name: str, dtype: Any) -> Any:
    """Return an array of two dimensions, or a shape in its place."""
    if x is None:
        return None
    if not hasattr(x, "dtype"):
        return Header(name, x, dtype)
    return check_single(x if isinstance(x, PairHeader) else as_matrix(x, name), name)


def _cluster(
    workers: int | None, threads: int | None, memory: int | None, *, engine: str | None
) -> Cluster:
    """Return the cluster that is described, or that of a lazy product's engine."""
    if engine and workers is None and threads is None and memory is None:
        return current_cluster(engine)
    count, side_by_side = (1 if x is None else x for x in (workers, threads))
    return Cluster(count, side_by_side, MemoryBudget(memory))


def _tiles(
    posed: Problem, chunks: ChunksLike | None, cluster: Cluster
) -> tuple[Chunks, Chunks, Chunks]:
    """Expand chunks, or choose them, along m, n and k."""
    (m, n, k), routine = posed.shape, posed.spec.routine

    def count_cells(tile: int) -> int:
        return routine.count_cells(-(-m // tile), -(-n // tile))

    sizes = {"n": n, "k": k} if routine.triangle else {"m": m, "n": n, "k": k}
    *rows, k_tiles = tile_sizes(chunks, sizes, count_cells, cluster.workers)
    return rows[0], rows[-1], k_tiles
