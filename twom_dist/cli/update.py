"""``twom-dist herk``, ``syrk``, ``her2k`` and ``syr2k``: updates of one triangle."""

from functools import partial
from typing import Any

import click

from ..checks import ROUTINES, Routine
from .failures import EXIT_CODES, SentenceCommand
from .options import apply_all, given, method_options, uplo_option
from .running import run_job, run_options, sum_options

_FORMULAS = {
    "herk": "alpha A A^H + beta C0",
    "syrk": "alpha A A^T + beta C0",
    "her2k": "alpha A B^H + conj(alpha) B A^H + beta C0",
    "syr2k": "alpha A B^T + alpha B A^T + beta C0",
}
_HELP = """Compute C = {formula} from matrices in files.

{matrices} and C0 are .zarr, .npy, .npz or HDF5 files, or members of them (data.h5::A).
Only one triangle of C is computed, and only that triangle of C0 is read. The result is
written to a temporary file and renamed when complete; on failure an existing file is
left unchanged. Inputs, output, workers and disk space are checked before any work.
"""


def _make_command(routine: Routine) -> click.Command:
    name, two, formula = routine.name, routine.two, _FORMULAS[routine.name]
    matrices, used = ("A, B", "A and B") if two else ("A", "A")
    transposed = "conjugate-transposed" if routine.hermitian else "transposed"

    @click.command(
        name,
        cls=SentenceCommand,
        short_help=f"Compute {formula}.",
        help=_HELP.format(formula=formula, matrices=matrices),
        epilog=EXIT_CODES,
    )
    @apply_all(*map(click.argument, "ab" if two else "a"))
    @sum_options
    @click.option(
        "--op",
        type=click.Choice(["N", routine.transposed]),
        help=f"Use {used} as stored (N, default) or {transposed} "
        f"({routine.transposed}).",
    )
    @uplo_option
    @method_options
    @run_options
    def command(
        a: str, op: str | None, uplo: str | None, b: str | None = None, **others: Any
    ) -> None:
        from ..jobs import open_update

        run_job(partial(open_update, name, a, b=b, **given(op=op, uplo=uplo)), **others)

    return command


updates = [_make_command(routine) for routine in ROUTINES.values()]
