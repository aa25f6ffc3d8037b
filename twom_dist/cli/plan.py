"""``twom-dist plan``: what a product or an update will cost."""

import json
from typing import Any

import click

from ..errors import TwomError
from ..problem.dtypes import letter_of
from ..tiles.routine import ROUTINES
from .options import (
    COMMON_OPTIONS,
    COUNT,
    EQUILIBRATE_OPTION,
    METHOD_OPTIONS,
    OP_OPTIONS,
    SHAPE,
    SIZE,
    TILE_OPTION,
    UPDATE_OPTIONS,
    given,
    option,
)
from .streams import show

_OPTIONS = [
    option(
        "--shape-a",
        SHAPE,
        "Shape of A as stored, such as 4096,2048, instead of a file.",
    ),
    option("--shape-b", SHAPE, "The same for B."),
    option(
        "--dtype", str, "Dtype of the result [default: of the files, or complex128]."
    ),
    option(
        "--routine",
        click.Choice(list(ROUTINES)),
        "Routine to plan [default: gemm]; updates take --op and --uplo.",
        default="gemm",
    ),
    *UPDATE_OPTIONS,
    *OP_OPTIONS,
    *METHOD_OPTIONS,
    EQUILIBRATE_OPTION,
    option(
        "--workers", COUNT, "Number of workers [default: as gemm would start here]."
    ),
    option(
        "--threads-per-worker", COUNT, "Threads of each [default: 1, or all cores]."
    ),
    option(
        "--worker-memory --memory-limit",
        SIZE,
        "Memory limit of each worker, e.g. 16GiB [default: none].",
    ),
    TILE_OPTION,
    *COMMON_OPTIONS,
]


@click.command(
    params=[*(click.Argument([x], required=False) for x in "ab"), *_OPTIONS],
    short_help="Show what a product will cost.",
)
def plan(
    a: str | None,
    b: str | None,
    shape_a: tuple[int, int] | None,
    shape_b: tuple[int, int] | None,
    dtype: str | None,
    routine: str,
    workers: int | None,
    threads_per_worker: int | None,
    worker_memory: int | None,
    tile: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show the cost of a product or update of A and B, given as files or shapes.

    Only the headers of the files are read, and nothing is computed.
    """
    from ..cluster.local import choose_workers
    from ..jobs import budget_for_job
    from ..plan import Cluster, find_chunks, lay_out
    from ..plan.memory import MemoryBudget
    from ..problem import problem

    rule = ROUTINES[routine]
    letter = None if dtype is None else letter_of(dtype)
    A, B = _find("A", a, shape_a, dtype), None
    if rule.matrices == 2 or b or shape_b:
        B = _find("B", b, shape_b, dtype)
    posed = problem.of_headers(rule, A, B, None, letter, **given(**options))
    threads = threads_per_worker
    if workers is None:
        own = choose_workers(None, threads, worker_memory)
        workers, threads = own.workers, own.threads
    on_device = posed.spec.engine == "cuda"
    budget = MemoryBudget(worker_memory, "device" if on_device else "product")
    cluster = Cluster(workers, threads or 1, budget)
    # A job leaves room for the processes, and so does its plan.
    cluster = cluster if on_device else budget_for_job(cluster)
    chunks = find_chunks(posed.spec, posed.a, posed.b)
    layout = lay_out(posed.spec, posed.shape, cluster, tile=tile, chunks=chunks)
    result, count = layout.plan(layout.waves[0], cluster), len(layout.waves)
    if as_json:
        show(json.dumps({"waves": count, **json.loads(result.to_json())}))
        return
    if count > 1:
        m, n, k = posed.shape
        tiles = f"the inputs of all {layout.num_computed} tiles at once"
        text = f"{m} x {k} times {k} x {n} in {count} waves, since the workers cannot"
        show(f"{text} hold {tiles}. The first of them:\n")
    show(result)


def _find(
    name: str, path: str | None, shape: tuple[int, int] | None, dtype: str | None
) -> Any:
    """Open the header of a file, or take a shape."""
    from ..problem.matrices import Header
    from ..store import open_matrix

    if (path is None) == (shape is None):
        both = "both" if path is not None else "neither"
        problem = f"the path of {name} and --shape-{name.lower()}: {both} given"
        raise TwomError(problem, "Give one of them for each matrix", "one-input")
    return open_matrix(path) if path else Header(name, shape, dtype or "complex128")
