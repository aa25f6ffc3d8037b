"""``twom-dist gemm``, ``herk`` and the others: files in, a file out."""

from typing import Any

import click

from ..tiles.routine import ROUTINES, Routine
from .failures import EPILOG
from .options import (
    COUNT,
    DEBUG_OPTION,
    JSON_OPTION,
    METHOD_OPTIONS,
    NUMBER,
    OP_OPTIONS,
    SCHEDULER_OPTIONS,
    SIZE,
    TILE_OPTION,
    UPLO_OPTION,
    flag,
    given,
    option,
    take,
)
from .running import run_job

_HELP = """Compute C = {formula} from matrices in files.

Matrices are .zarr, .npy, .npz or HDF5 files, or members (data.h5::A).{triangle}
The result is written to a temporary file and renamed when complete; on failure an
existing file is left unchanged. Inputs, output, workers and disk space are checked
before any work.
"""
_TRIANGLE = """
Only one triangle of C is computed, and only that triangle of C0 is read."""

_SUM_OPTIONS = [
    option(
        "-o --output",
        str,
        "File to write; data.h5::C names the member of an HDF5 or .npz file [default "
        "member: matrix].",
        required=True,
        metavar="C",
    ),
    option("--c", str, "File of the matrix to add, times --beta.", metavar="C0"),
    option(
        "--alpha",
        NUMBER,
        "Factor of the product, e.g. 2, -0.5 or 1+2j [default: 1].",
        default=1,
    ),
    option("--beta", NUMBER, "Factor of C0; has to be given with --c."),
]
_FILE_OPTIONS = [
    flag(
        "--overwrite",
        "Replace an existing output, and start anew. Without it the same command "
        "continues what was stopped.",
    ),
    flag(
        "--refuse-missing",
        "Refuse zarr inputs that lack chunks, which are read as zeros otherwise.",
    ),
    flag(
        "--verify",
        "Check the result by its product with a random vector before it gets its name; "
        "all matrices are read once more.",
    ),
]
_WORKER_OPTIONS = [
    option(
        "--workers",
        click.IntRange(0),
        "Worker processes to start; 0 uses threads of this process [default: one for "
        "each GPU, or as many as suit the cores and the memory].",
    ),
    option(
        "--threads-per-worker",
        COUNT,
        "Threads per worker process [default: 1 on a GPU, else a share of the cores].",
    ),
    option(
        "--memory-limit",
        SIZE,
        "Memory limit of each worker, e.g. 4GiB [default: an equal share of this "
        "machine].",
    ),
    flag("--dashboard", "Serve dask's dashboard on port 8787."),
    flag(
        "--insecure",
        "Do not encrypt: every user of this machine can then run programs as you.",
    ),
]
_OUTPUT_OPTIONS = [
    flag(
        "--progress",
        "Show the progress bar even without a terminal, where a line a minute tells "
        "how far the job is.",
    ),
    flag("--quiet", "Print nothing but errors and what --json prints."),
    JSON_OPTION,
    DEBUG_OPTION,
]


def _make_command(routine: Routine) -> click.Command:
    letters = ["a", "b"][: routine.matrices]
    ops = [_op_option(routine), UPLO_OPTION] if routine.triangle else OP_OPTIONS
    of_job = [*_SUM_OPTIONS, *ops, *METHOD_OPTIONS, *_FILE_OPTIONS]
    of_run = [*SCHEDULER_OPTIONS, *_WORKER_OPTIONS, TILE_OPTION, *_OUTPUT_OPTIONS]

    def run(a: str, b: str | None = None, **options: Any) -> None:
        from ..jobs import open_job

        job = open_job(routine.name, a, b, **given(**take(options, of_job)))
        scheduler = take(options, SCHEDULER_OPTIONS)
        run_job(job, scheduler, take(options, _WORKER_OPTIONS), **options)

    formula = f"{routine.formula}0"
    return click.Command(
        routine.name,
        params=[*(click.Argument([x]) for x in letters), *of_job, *of_run],
        callback=run,
        short_help=f"Compute {formula}.",
        help=_HELP.format(
            formula=formula,
            triangle=_TRIANGLE if routine.triangle else "",
        ),
        epilog=EPILOG,
    )


def _op_option(routine: Routine) -> click.Option:
    matrices = "A and B" if routine.matrices == 2 else "A"
    word = "conjugate-transposed" if routine.hermitian else "transposed"
    other = routine.transposed
    about = f"Use {matrices} as stored (N, default) or {word} ({other})."
    return option("--op", click.Choice(["N", other]), about)


products = [_make_command(routine) for routine in ROUTINES.values()]
