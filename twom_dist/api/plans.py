"""Plans of calls: their cost, before anything runs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import PlanError
from ..jobs import budget_for_job, check_call
from ..jobs.driver import find_workers
from ..jobs.resources import choose_engine_and_budget
from ..plan import Cluster, Plan, find_chunks, lay_out, tile_sizes
from ..plan.cluster import DEVICE_THREADS, MemoryBudget, read_count, read_limit
from ..problem.call import Call
from ..problem.dtypes import INTEGERS, as_number
from ..problem.matrices import Header, common_family, is_dask, outline
from ..problem.pairs import as_pairs
from ..problem.problem import Problem, describe, of_headers
from ..problem.sizes import check_known
from ..run.advice import advise_chunks, advise_method, advise_op
from ..store import StoredMatrix
from ..tiles.grid import Chunks
from ..workers.client import current_cluster
from ..workers.machine import machine_memory
from .files import ask_job
from .plan_operands import is_header, take_matrices
from .routine import ask

# Sizes of tiles: one for all dimensions, or one or all of its sizes for each.
ChunksLike = int | Sequence[int | Sequence[int]]


def plan(
    routine: Any,
    /,
    *matrices: Any,
    dtype: Any = None,
    chunks: ChunksLike | None = None,
    n_workers: int | None = None,
    n_hosts: int | None = None,
    threads_per_worker: int | None = None,
    memory_limit: int | str | None = None,
    **options: Any,
) -> Plan:
    """Tell the tasks, traffic and memory of a call before anything runs.

    Parameters
    ----------
    routine : function
        `gemm`, `herk`, `syrk`, `her2k`, `syr2k`; a BLAS-typed name such as `zherk`; a
        routine of ``integers``, ``twofold`` or ``xarray``; or `multiply_files` or
        `rank_k_files`, whose first wave is planned.
    *matrices : array, tuple of int, or path
        Arguments of the routine: arrays, files, or shapes as stored, before op (for
        pairs, with the 2 at the end), but no batch. For a job, matrices may be shapes
        or arrays, and the output may be left out.
    dtype : dtype, optional
        That of the result: float32, float64, complex64 or complex128; for shapes of
        exact products also that of the integers, int8 by default. Default: that of the
        arrays or of the typed name, or complex128.
    chunks : int, or (mb, nb, kb) of int or tuple of int, optional
        Sizes of tiles along m, n and k; for `herk` and the like along n and k. Default:
        the chunks of dask arrays, otherwise chosen.
    n_workers : int, optional
        Worker processes. Default: one on each host.
    n_hosts : int, optional
        Machines on which as many workers run each. Default: one.
    threads_per_worker : int, optional
        Tasks that run at once on each. Default: one; with engine="cuda" two.
    memory_limit : int or str, optional
        Memory of each worker, in bytes or as "4 GiB"; with engine="cuda" that of its
        GPU's pool. Plans use 0.8 of this memory, less what a job needs otherwise.
        Default: unlimited. If none of these four is given, dask arrays are planned for
        the workers of the current client, or for this machine without one, and jobs for
        the workers that would run them.
    **options
        As in the routine. With beta, C may be left out.

    Returns
    -------
    Plan
        Print it, read its attributes, or keep ``plan.to_json()``.

    Raises
    ------
    MemoryLimitError
        If the plan does not fit into `memory_limit`; the message says what fits.

    See Also
    --------
    explain : The accuracy of a call, and why.

    Notes
    -----
    Nothing is computed, and only headers of files are read. If the data decide the
    moduli, the plan counts an expected number; `explain` checks the data.

    Examples
    --------
    >>> import twom_dist as td
    >>> shapes = (8192, 4096), (4096, 8192)
    >>> print(td.plan(td.gemm, *shapes, chunks=1024, n_workers=4, num_moduli=16))
    routine          gemm
    product          8192 x 4096 times 4096 x 8192, complex128
    method           2m, 16 moduli, 117.7 bits
    error bound      7.2e-16 ||a_i|| ||b_j||
    tiles            8 x 8 of C, 4 along k; up to 1024 x 1024 x 1024
    tasks            80 of dask, 1 panel along k for each tile of C
    int8 GEMMs       8192 of tiles, 1.76e+13 operations
    workers          4, as 2 x 2 x 1 along m, n and k
    idle workers     0
    data moved       1.00 GiB between workers: entries of op(A) and op(B)
    peak per worker  1.81 GiB; 1.59 GiB if tiles of C are not kept
    """
    job = ask_job(routine, matrices, options)
    call = take_matrices(job or ask(routine, matrices, options, plan), dtype)
    if job is not None:
        check_call(call)  # whose dtype is known now
    posed = _pose(call)
    lazy_inputs = any(map(is_dask, call.arrays().values()))
    cluster = _describe(posed, n_workers, n_hosts, threads_per_worker, memory_limit)
    told = n_workers, n_hosts, threads_per_worker, memory_limit
    described = told != (None,) * 4
    if job is not None:
        known = cluster if described else None
        return plan_job(posed, chunks, known, options.get("client"))
    if lazy_inputs and not described:
        cluster = current_cluster(posed.spec.engine)
    if lazy_inputs and chunks is None:
        found = _plan_lazy(posed, call, cluster)
    else:
        from ..run.sources import plan_inputs

        check_known(posed.shape, "a matrix")
        tiles = _tiles(posed, chunks, cluster)
        found = plan_inputs(posed.spec, tiles, cluster, can_stream=lambda: True)
    if call.terms.letter in INTEGERS:
        note = f"the result is converted to {call.terms.letter}"
        found = replace(found, notes=(*found.notes, note))
    return found


def _describe(
    posed: Problem, n_workers: Any, n_hosts: Any, threads: Any, limit: Any
) -> Cluster:
    """Describe workers by what is said of them, and else by the usual."""
    on_device = posed.spec.engine == "cuda"
    hosts = 1 if n_hosts is None else read_count("n_hosts", n_hosts)
    count = hosts if n_workers is None else n_workers
    if threads is None:
        threads = DEVICE_THREADS if on_device else 1
    limit = read_limit(limit, machine_memory())
    memory = MemoryBudget(limit, "device" if on_device else "product")
    cluster = Cluster(count, threads, memory)
    if cluster.workers % hosts:
        problem = f"n_hosts={hosts} does not divide n_workers={count}"
        raise PlanError(problem, "Give as many workers for each host", "cluster")
    return replace(cluster, node=cluster.workers // hosts if hosts > 1 else 0)


def _pose(call: Call) -> Problem:
    """Pose the problem of the headers; without C, beta adds one of zeros."""
    terms, c, given = call.terms, call.C, call.arrays()
    arrays = {x: given[x] for x in "AB" if given[x] is not None}
    arrays = {x: y for x, y in arrays.items() if not is_header(y)}
    family = common_family(**arrays) if arrays else None
    seen = {x: describe(terms.choice, y, x) for x, y in arrays.items()}
    call = call.with_arrays(given | seen)
    if c is None and terms.beta is not None and as_number(terms.beta, "beta") != 0:
        alone = of_headers(call._replace(terms=terms._replace(beta=None)), family)
        zeros = Header(alone.shape[:2], alone.dtype)
        call = call._replace(C=zeros)
    return of_headers(call, family)


def _plan_lazy(posed: Problem, call: Call, cluster: Cluster) -> Plan:
    """Plan the product of dask arrays as they are chunked."""
    from ..run.lazy import align, plan_aligned
    from ..run.sources import Inputs

    a, b = map(call.arrays().get, "AB")
    if call.terms.choice.pairs:
        kinds = posed.spec.stored or (None, None)
        pairs = zip((a, b), "AB", kinds, strict=True)
        a, b = (
            None if x is None else as_pairs(x, name, kind) for x, name, kind in pairs
        )
    c = posed.c if is_dask(posed.c) else None
    posed = replace(posed, a=a, b=a if b is None else b, c=c)
    left, right, *_ = align(posed)
    return plan_aligned(posed.spec, Inputs(left, right), cluster, explain=True)


def _tiles(
    posed: Problem, chunks: ChunksLike | None, cluster: Cluster
) -> tuple[Chunks, Chunks, Chunks]:
    (m, n, k), routine = posed.shape, posed.spec.routine

    def count_cells(tile: int) -> int:
        return routine.count_cells(-(-m // tile), -(-n // tile))

    sizes = {"n": n, "k": k} if routine.triangle else {"m": m, "n": n, "k": k}
    *rows, k_tiles = tile_sizes(chunks, sizes, count_cells, cluster.workers)
    return rows[0], rows[-1], k_tiles


def plan_job(
    posed: Problem, chunks: Any, cluster: Cluster | None = None, client: Any = None
) -> Plan:
    """Plan the first wave of a job, laid out as the job would be.

    `cluster`: workers that are described; else those of the client, or this process.
    """
    given = posed.a, posed.b
    a, b = (x if isinstance(x, StoredMatrix) else outline(x) for x in given)
    if cluster is None:
        client, cluster = find_workers(client)
        engine, cluster = choose_engine_and_budget(posed.spec.engine, cluster, client)
        posed = posed.with_engine(engine)
    elif posed.spec.engine != "cuda":
        cluster = budget_for_job(cluster)  # a job leaves room for the processes
    stored = find_chunks(posed.spec, a, b)
    layout = lay_out(posed.spec, posed.shape, cluster, tile=chunks, chunks=stored)
    itemsize = max(a.dtype.itemsize, b.dtype.itemsize)
    plan = layout.plan_all(cluster, stored, itemsize)
    notes = [*advise_op(posed), *advise_method(posed), *advise_chunks(layout)]
    if layout.num_computed == 1 and plan.tiles[2] > 1:
        notes.append("C is one tile: a stopped job multiplies from the beginning")
    return replace(plan, notes=tuple(notes))
