"""``twom-dist plan``: what a product will cost."""

from typing import Any

import click
from dask.system import CPU_COUNT

from ..api.files import multiply_files, rank_k_files
from ..api.plans import plan as plan_routine
from ..tiles.routine import ROUTINES
from ..workers.devices import count_gpus
from ..workers.local import choose_workers
from . import options as opt
from .failures import show, spell
from .options import drop_none, find_routine, option, read_matrix

_OPTIONS = [
    option(
        "--dtype",
        str,
        "Dtype of the result; if of integers, of those of shapes, which are int8 by "
        "default [default: of the files, or complex128].",
    ),
    *opt.UPDATE_OPTIONS,
    *opt.OP_OPTIONS,
    *opt.SHARED_OPTIONS,
    opt.SCALING_OPTION,
    opt.EXACT_OPTION,
    opt.PAIRS_OPTION,
    option("--n-workers", opt.COUNT, "Number of workers [default: as gemm starts]."),
    option("--n-hosts", opt.COUNT, "Machines, each with as many [default: 1]."),
    *opt.WORKER_OPTIONS,
    opt.CHUNKS_OPTION,
    *opt.COMMON_OPTIONS,
]


@click.command(
    params=[
        click.Argument(["routine"], type=click.Choice([*ROUTINES])),
        click.Argument(["a"], type=read_matrix),
        click.Argument(["b"], type=read_matrix, required=False),
        *_OPTIONS,
    ],
    short_help="Show what a product will cost.",
)
def plan(
    routine: str,
    a: Any,
    b: Any,
    exact: bool,
    n_workers: int | None,
    threads_per_worker: int | None,
    memory_limit: int | str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show the cost of a product of A and B: files, or their shapes as stored.

    Only the headers of the files are read, and nothing is computed.

    \b
        twom-dist plan gemm A.zarr B.zarr --n-workers 4
        twom-dist plan herk 40000,20000
    """  # noqa: D301 click reads the character
    function = find_routine(routine, exact or options["pairs"])
    asked = drop_none(routine=function, a=a, b=b)
    job = rank_k_files if ROUTINES[routine].triangle else multiply_files
    threads, on_device = threads_per_worker, options["engine"] == "cuda"
    hosts = options["n_hosts"] or 1
    if on_device:
        n_workers = n_workers or hosts * (count_gpus()[0] or 1)
    elif n_workers is None:
        own = choose_workers(None, threads, memory_limit)
        n_workers, threads = hosts * own.workers, own.threads
        memory_limit = own.memory.limit
    elif threads is None:
        threads = max(1, hosts * CPU_COUNT // n_workers)
    workers = {"n_workers": n_workers, "threads_per_worker": threads}
    asked |= workers | {"memory_limit": memory_limit} | drop_none(**options)
    found = plan_routine(job, **asked)
    show(found.to_json() if as_json else spell(str(found)))
