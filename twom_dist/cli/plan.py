"""``twom-dist plan``: what a product or an update will cost."""

import json
from typing import Any

import click

from ..checks import OPS, ROUTINES
from .failures import RefusedError, SentenceCommand, refusing
from .options import (
    debug_option,
    given,
    method_options,
    op_options,
    parse_shape,
    parse_size,
    uplo_option,
)

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
    type=click.Choice(["gemm", *ROUTINES]),
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
@click.option(
    "--tile",
    type=click.IntRange(1),
    help="Rows and columns of a tile [default: chosen by the planner].",
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
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
    from ..cluster.local import choose_workers, find_machine
    from ..jobs import find_room, lay_out, plan_wave
    from ..jobs.devices import DeviceRoom
    from ..jobs.layout import find_chunks
    from ..plan import Cluster

    ops = given(**{name: options.pop(name) for name in ("op", "op_a", "op_b")})
    options = given(**options)
    with refusing():
        _check_names(routine, ops, options.get("uplo"))
        found_a = _find("A", "--shape-a", a, shape_a)
        found_b = None
        if routine == "gemm" or ROUTINES[routine].two:
            found_b = _find("B", "--shape-b", b, shape_b)
        elif b is not None or shape_b is not None:
            raise RefusedError(f"B given; {routine} takes one matrix: leave it out")
        options["dtype"] = _result_dtype(dtype, found_a, found_b)
        shape = _measure(routine, found_a, found_b, ops, options.get("uplo"))
        threads = threads_per_worker or 1
        if workers is None:
            machine = find_machine(gpus=False)
            own = choose_workers(machine, None, threads_per_worker, worker_memory)
            workers, threads = own.workers, own.threads
        cluster = Cluster(workers, threads, worker_memory)
        # A job leaves room for the processes, and so does its plan.
        on_device = options.get("engine") == "cuda"
        room = DeviceRoom(cluster) if on_device else find_room(cluster)
        both = found_a, found_b or found_a
        shared = {"tile": tile, "chunks": find_chunks(routine, *both, ops), **options}
        layout = room.lay_out(
            lambda own: lay_out(shape, cluster=own, routine=routine, **shared)
        )
        first = layout.wave_chunks(layout.waves[0])
        result = plan_wave(routine, first, room.planned, **options)
    if as_json:
        kept = json.loads(result.to_json())
        click.echo(json.dumps({"waves": len(layout.waves), **kept}))
        return
    if len(layout.waves) > 1:
        m, n, k = shape
        click.echo(
            f"{m} x {k} times {k} x {n} in {len(layout.waves)} waves, as the workers "
            f"cannot hold the inputs of all {layout.num_computed} tiles at once. The "
            "first of them:\n"
        )
    click.echo(result.describe(chosen=tile is None))


def _check_names(routine: str, ops: dict[str, str], uplo: str | None) -> None:
    """Refuse options of the other routines."""
    is_update = routine in ROUTINES
    for name in ops:
        if (name == "op") != is_update:
            raise RefusedError(
                f"--{name.replace('_', '-')} given; {routine} takes "
                + ("--op" if is_update else "--op-a and --op-b")
            )
    if uplo is not None and not is_update:
        raise RefusedError(
            "--uplo given, and gemm computes all of C; leave it out, or name an update "
            f"with --routine ({', '.join(ROUTINES)})"
        )


def _measure(
    routine: str, a: Any, b: Any, ops: dict[str, str], uplo: str | None
) -> tuple[int, int, int]:
    """Return (m, n, k) of a routine that takes these options."""
    from .. import checks

    if routine in ROUTINES:
        op = ops.get("op", "N")
        checks.check_update_names(ROUTINES[routine], op, uplo or "full")
        n, k = checks.check_update_shapes(a, b, None, op)
        return n, n, k
    left, right = (checks.check_op(ops.get(x, "N"), x) for x in ("op_a", "op_b"))
    return checks.check_product_shapes(a, b, None, left, right)


class _Described:
    """A shape and a dtype in the place of a matrix."""

    chunks = None

    def __init__(self, shape: tuple[int, int]) -> None:
        import numpy as np

        self.shape = shape
        self.dtype = np.dtype(np.complex128)


def _find(
    name: str, option: str, path: str | None, shape: tuple[int, int] | None
) -> Any:
    """Open the header of a file, or take a shape."""
    from ..store import open_matrix

    if (path is None) == (shape is None):
        both = "both given" if path is not None else "neither given"
        raise RefusedError(
            f"the path of {name} and {option}: {both}; give one of them for each matrix"
        )
    return _Described(shape) if shape is not None else open_matrix(str(path))


def _result_dtype(given_dtype: str | None, a: Any, b: Any) -> Any:
    import numpy as np

    from .. import checks

    if given_dtype is None:
        return checks.result_dtype(None, A=a, B=b)
    names = list(checks.DTYPES.values())
    try:
        dtype = np.dtype(given_dtype)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.name not in names:
        raise RefusedError(
            f"--dtype {given_dtype} given; allowed are {', '.join(names)}"
        )
    return dtype
