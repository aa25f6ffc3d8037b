"""``twom-dist plan``: what a product or an update will cost."""

import json
from typing import Any

import click

from ..errors import TwomError
from ..problem.dtypes import letter_of
from ..problem.target import Exact
from ..tiles.routine import ROUTINES
from .options import (
    CHUNKS_OPTION,
    COMMON_OPTIONS,
    COUNT,
    DIAG_OPTION,
    EQUILIBRATE_OPTION,
    EXACT_OPTION,
    METHOD_OPTIONS,
    OP_OPTIONS,
    SHAPE,
    SIZE,
    UPDATE_OPTIONS,
    find_routine,
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
    *UPDATE_OPTIONS,
    *OP_OPTIONS,
    *METHOD_OPTIONS,
    DIAG_OPTION,
    EQUILIBRATE_OPTION,
    EXACT_OPTION,
    option(
        "--n-workers", COUNT, "Number of workers [default: as gemm would start here]."
    ),
    option(
        "--threads-per-worker",
        COUNT,
        "Threads of each [default: 2 on a GPU, else 1, or all cores].",
    ),
    option(
        "--memory-limit",
        SIZE,
        "Memory limit of each worker, e.g. 16GiB [default: none].",
    ),
    CHUNKS_OPTION,
    *COMMON_OPTIONS,
]


@click.command(
    params=[
        click.Argument(
            ["routine"], type=click.Choice(list(ROUTINES)), metavar="ROUTINE"
        ),
        *(click.Argument([x], required=False) for x in "ab"),
        *_OPTIONS,
    ],
    short_help="Show what a product will cost.",
)
def plan(
    routine: str,
    a: str | None,
    b: str | None,
    shape_a: tuple[int, int] | None,
    shape_b: tuple[int, int] | None,
    dtype: str | None,
    exact: bool,
    n_workers: int | None,
    threads_per_worker: int | None,
    memory_limit: int | None,
    chunks: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show the cost of a product or update of A and B, given as files or shapes.

    Only the headers of the files are read, and nothing is computed.
    """
    from ..api.asking import ask
    from ..cluster.local import choose_workers
    from ..jobs import budget_for_job
    from ..plan import Cluster, find_chunks, lay_out
    from ..plan.cluster import DEVICE_THREADS
    from ..plan.memory import MemoryBudget
    from ..problem.problem import of_headers
    from ..store import read_vector

    rule = ROUTINES[routine]
    matrices = [_find("A", a, shape_a, dtype)]
    if rule.matrices == 2 or b or shape_b:
        matrices.append(_find("B", b, shape_b, dtype))
    call = ask(find_routine(routine, exact), tuple(matrices), given(**options))
    terms = call.terms
    if dtype is not None and not isinstance(terms.choice.target, Exact):
        terms = terms._replace(letter=letter_of(dtype))
    diag = None if call.diag is None else read_vector(call.diag)
    posed = of_headers(terms, call.A, call.B, call.C, diag=diag)
    threads = threads_per_worker
    if n_workers is None:
        own = choose_workers(None, threads, memory_limit)
        n_workers, threads = own.workers, own.threads
    on_device = posed.spec.engine == "cuda"
    budget = MemoryBudget(memory_limit, "device" if on_device else "product")
    threads = threads or (DEVICE_THREADS if on_device else 1)
    cluster = Cluster(n_workers, threads, budget)
    # A job leaves room for the processes, and so does its plan.
    cluster = cluster if on_device else budget_for_job(cluster)
    stored = find_chunks(posed.spec, posed.a, posed.b)
    layout = lay_out(posed.spec, posed.shape, cluster, tile=chunks, chunks=stored)
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
    from ..problem.matrices import read_shape
    from ..store import open_matrix

    if (path is None) == (shape is None):
        own = f"--shape-{name.lower()}"
        problem = f"neither a file nor a shape of {name} is given"
        remedy = f"Give the path of a file, or {own}"
        if path is not None:
            problem, remedy = (
                f"both a file and {own} are given",
                "Leave out one of them",
            )
        raise TwomError(problem, remedy, "one-input")
    return open_matrix(path) if path else read_shape(name, shape, dtype or "complex128")
