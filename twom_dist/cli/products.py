"""``twom-dist gemm``, ``herk`` and the others: files in, a file out."""

from functools import partial
from typing import Any

import click

from ..tiles.routine import ROUTINES, Routine
from .failures import EPILOG, SentenceCommand
from .options import apply_all, given, method_options, op_options, uplo_option
from .running import run_job, run_options, sum_options

_HELP = """Compute C = {formula} from matrices in files.

{matrices} are .zarr, .npy, .npz or HDF5 files, or members (data.h5::A).{triangle}
The result is written to a temporary file and renamed when complete; on failure an
existing file is left unchanged. Inputs, output, workers and disk space are checked
before any work.
"""
_TRIANGLE = """
Only one triangle of C is computed, and only that triangle of C0 is read."""


def _make_command(routine: Routine) -> click.Command:
    name, formula = routine.name, f"{routine.formula}0"
    letters = "ab"[: routine.matrices]
    named_ops = [_op_option(routine), uplo_option] if routine.triangle else [op_options]

    @click.command(
        name,
        cls=SentenceCommand,
        short_help=f"Compute {formula}.",
        help=_HELP.format(
            formula=formula,
            matrices=", ".join(
                (*letters.upper()[:-1], f"{letters.upper()[-1]} and C0")
            ),
            triangle=_TRIANGLE if routine.triangle else "",
        ),
        epilog=EPILOG,
    )
    @apply_all(*map(click.argument, letters))
    @sum_options
    @apply_all(*named_ops)
    @method_options
    @run_options
    def command(a: str, b: str | None = None, **others: Any) -> None:
        from ..jobs import open_job

        names = ("op", "uplo") if routine.triangle else ("op_a", "op_b")
        ops = given(**{name: others.pop(name) for name in names})
        run_job(partial(open_job, name, a, b, **ops), **others)

    return command


def _op_option(routine: Routine) -> Any:
    matrices = "A and B" if routine.matrices == 2 else "A"
    word = "conjugate-transposed" if routine.hermitian else "transposed"
    other = routine.transposed
    return click.option(
        "--op",
        type=click.Choice(["N", other]),
        help=f"Use {matrices} as stored (N, default) or {word} ({other}).",
    )


products = [_make_command(routine) for routine in ROUTINES.values()]
