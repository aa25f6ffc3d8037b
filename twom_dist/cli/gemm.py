"""``twom-dist gemm``: multiply two stored matrices."""

from functools import partial
from typing import Any

import click

from .failures import EXIT_CODES, SentenceCommand
from .options import given, method_options, op_options
from .running import run_job, run_options, sum_options


@click.command(
    cls=SentenceCommand,
    short_help="Multiply two stored matrices.",
    epilog=EXIT_CODES,
)
@click.argument("a")
@click.argument("b")
@sum_options
@op_options
@method_options
@run_options
def gemm(a: str, b: str, op_a: str | None, op_b: str | None, **others: Any) -> None:
    """Compute C = alpha op(A) op(B) + beta C0 from matrices in files.

    A, B and C0 are .zarr, .npy, .npz or HDF5 files, or members of them (data.h5::A).
    The result is written to a temporary file and renamed when complete; on failure an
    existing file is left unchanged. Inputs, output, workers and disk space are checked
    before any work.
    """
    from ..jobs import open_job

    run_job(partial(open_job, a, b, **given(op_a=op_a, op_b=op_b)), **others)
