"""``twom-dist plan``: what a product or an update will cost."""

import json
from functools import partial
from typing import Any

import click

from ..problem import OPS
from ..tiles.routine import ROUTINES
from .failures import RefusedError, SentenceCommand, refusing
from .options import (
    debug_option,
    given,
    json_option,
    method_options,
    op_options,
    parse_shape,
    parse_size,
    tile_option,
    uplo_option,
)
from .streams import show

_EXAMPLES = """\b
Examples:
  twom-dist plan A.zarr B.zarr --workers 4
  twom-dist plan --shape-a 65536,65536 --shape-b 65536,65536 --workers 4
  twom-dist plan A.zarr --routine herk --uplo lower --workers 4
"""


@click.command(
    cls=SentenceCommand,
    short_help="Show what a product will cost.",
    epilog=_EXAMPLES,
)
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.option(
    "--shape-a",
    type=parse_shape,
    metavar="M,N",
    help="Shape of A as stored, instead of a file.",
)
@click.option(
    "--shape-b",
    type=parse_shape,
    metavar="M,N",
    help="Shape of B as stored, instead of a file.",
)
@click.option(
    "--dtype",
    help="Dtype of the result [default: that of the files, or complex128].",
)
@click.option(
    "--routine",
    type=click.Choice(list(ROUTINES)),
    default="gemm",
    help="Routine to plan [default: gemm]; updates take --op and --uplo.",
)
@click.option(
    "--op",
    type=click.Choice(OPS),
    help="Use the matrices of an update as stored (N, default) or transposed.",
)
@uplo_option
@op_options
@method_options
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="Number of workers [default: as many as gemm would start on this machine].",
)
@click.option(
    "--threads-per-worker",
    type=click.IntRange(1),
    help="Threads of each worker [default: 1; with the default --workers all cores].",
)
@click.option(
    "--worker-memory",
    "--memory-limit",
    type=parse_size,
    metavar="BYTES",
    help="Memory limit of each worker, e.g. 16GiB [default: none].",
)
@tile_option
@json_option
@debug_option
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
    debug: bool,
    **options: Any,
) -> None:
    """Show the cost of a product or update of A and B, given as files or shapes.

    Only the headers of the files are read, and nothing is computed.
    """
    from .. import problem
    from ..cluster.local import choose_workers, find_machine
    from ..jobs import Job, budget_for_job
    from ..jobs.budget import fit
    from ..memory import MemoryBudget
    from ..plan import Cluster

    with refusing():
        rule = problem.find_routine(routine)
        found_a = _find("A", "--shape-a", a, shape_a, dtype)
        found_b = None
        if rule.matrices == 2 or b is not None or shape_b is not None:
            found_b = _find("B", "--shape-b", b, shape_b, dtype)
        posed = problem.of_headers(rule, found_a, found_b, None, **given(**options))
        # A job leaves room for the processes, and so does its plan.
        on_device = posed.spec.engine == "cuda"
        budget = MemoryBudget(worker_memory, "device" if on_device else "product")
        threads = threads_per_worker or 1
        if workers is None:
            machine = find_machine(gpus=False)
            own = choose_workers(machine, None, threads_per_worker, worker_memory)
            workers, threads = own.workers, own.threads
        cluster = Cluster(workers, threads, budget)
        cluster = cluster if on_device else budget_for_job(cluster)
        job = Job(**vars(posed), output="")
        layout = fit(partial(job.lay_out, tile=tile), cluster)
        result = layout.plan(layout.waves[0], cluster)
    if as_json:
        kept = json.loads(result.to_json())
        show(json.dumps({"waves": len(layout.waves), **kept}))
        return
    if len(layout.waves) > 1:
        m, n, k = posed.shape
        show(
            f"{m} x {k} times {k} x {n} in {len(layout.waves)} waves, since the "
            f"workers cannot hold the inputs of all {layout.num_computed} tiles at "
            "once. The first of them:\n"
        )
    show(result)


def _find(
    name: str,
    option: str,
    path: str | None,
    shape: tuple[int, int] | None,
    dtype: str | None,
) -> Any:
    """Open the header of a file, or take a shape."""
    from ..matrices import Header
    from ..problem import product_dtype
    from ..store import open_matrix

    if (path is None) == (shape is None):
        both = "both given" if path is not None else "neither given"
        raise RefusedError(
            f"the path of {name} and {option}: {both}",
            "Give one of them for each matrix",
            "one-input",
        )
    wanted = None if dtype is None else product_dtype(dtype)
    if shape is not None:
        return Header(name, shape, wanted or "complex128")
    stored = open_matrix(str(path))
    return Header(name, stored.shape, wanted, stored.chunks) if wanted else stored
