"""Opening a job: everything that can be known before any work."""

import os
import re
from typing import Any

from .. import checks
from ..checks import ROUTINES
from ..errors import PlanError
from ..store import StoredMatrix, open_matrix
from .job import Job, Path


def open_job(
    a: Path,
    b: Path,
    output: Path,
    *,
    overwrite: bool = False,
    op_a: str = "N",
    op_b: str = "N",
    alpha: complex = 1,
    beta: complex = 0,
    c: Path | None = None,
    **options: Any,
) -> Job:
    """Open the inputs of a product and check all that can be known from their headers.

    Parameters
    ----------
    a, b, output : str or os.PathLike
        As in `multiply_files`.
    overwrite : bool
    op_a, op_b : {"N", "T", "C"}
    alpha, beta : number
    c : str or os.PathLike, optional
    **options
        As in `gemm`.

    Returns
    -------
    Job
        Ready to be laid out and run.

    Raises
    ------
    StoreError, TypeError, PlanError, AccuracyError
        As `multiply_files`.
    """
    settings = checks.make_options(options)
    left, right = checks.check_op(op_a, "op_a"), checks.check_op(op_b, "op_b")
    stored = _open_inputs(output, beta, A=a, B=b, C=c)
    dtype = checks.result_dtype(None, **stored)
    alpha = checks.check_scalar(alpha, "alpha", dtype)
    beta = checks.check_scalar(beta, "beta", dtype)
    added = stored.get("C")
    m, n, k = checks.check_product_shapes(stored["A"], stored["B"], added, left, right)
    return Job(
        routine="gemm",
        a=stored["A"],
        b=stored["B"],
        c=None if beta == 0 else added,
        output=output,
        overwrite=overwrite,
        shape=(m, n, k),
        dtype=dtype,
        system=checks.check_options(settings, dtype, k),
        scalars={"alpha": alpha, "beta": beta, "op_a": left, "op_b": right},
        options=options,
    )


def open_update(
    routine: str,
    a: Path,
    output: Path,
    b: Path | None = None,
    *,
    overwrite: bool = False,
    op: str = "N",
    uplo: str = "full",
    alpha: complex = 1,
    beta: complex = 0,
    c: Path | None = None,
    **options: Any,
) -> Job:
    """Open the inputs of an update and check all that can be known from their headers.

    Parameters
    ----------
    routine : {"herk", "syrk", "her2k", "syr2k"}
    a, output, b : str or os.PathLike
        As in `update_files`.
    overwrite : bool
    op : {"N", "C"} or {"N", "T"}
    uplo : {"full", "lower", "upper"}
    alpha, beta : number
    c : str or os.PathLike, optional
    **options
        As in the routine.

    Returns
    -------
    Job
        Ready to be laid out and run.

    Raises
    ------
    StoreError, TypeError, PlanError, AccuracyError
        As `update_files`.
    """
    if routine not in ROUTINES:
        raise PlanError(
            f"routine={routine!r} given; allowed are {', '.join(map(repr, ROUTINES))}"
        )
    update = ROUTINES[routine]
    if update.two != (b is not None):
        raise TypeError(
            f"{routine} takes two matrices; pass B as well"
            if update.two
            else f"{routine} takes one matrix; leave out B"
        )
    settings = checks.make_options(options)
    stored = _open_inputs(output, beta, A=a, B=b, C=c)
    dtype = checks.result_dtype(None, **stored)
    alpha = checks.check_scalar(alpha, "alpha", dtype)
    beta = checks.check_scalar(beta, "beta", dtype)
    checks.check_real_scalars(update, alpha, beta)
    checks.check_update_names(update, op, uplo)
    first, added = stored["A"], stored.get("C")
    n, k = checks.check_update_shapes(first, stored.get("B"), added, op)
    return Job(
        routine=routine,
        a=first,
        b=stored.get("B", first),
        c=None if beta == 0 else added,
        output=output,
        overwrite=overwrite,
        shape=(n, n, k),
        dtype=dtype,
        system=checks.check_options(settings, dtype, k),
        scalars={"alpha": alpha, "beta": beta, "op": op, "uplo": uplo},
        options=options,
    )


def _open_inputs(
    output: Path, beta: complex, **inputs: Path | None
) -> dict[str, StoredMatrix]:
    """Open what is given, by its letter, and refuse an output that would hit it."""
    if beta != 0 and inputs["C"] is None:
        raise PlanError(f"beta={beta} given without C; pass C, or leave beta out")
    stored = {x: open_matrix(path) for x, path in inputs.items() if path is not None}
    _check_output(output, stored)
    return stored


def _check_output(output: Path, inputs: dict[str, StoredMatrix]) -> None:
    """Refuse an output that would replace an input, or lie inside one."""
    text = os.fspath(output)
    # With its member cut off; folders may hold "::" as well.
    starts = [text, *(text[: found.start()] for found in re.finditer("::", text))]
    for letter, stored in inputs.items():
        # The output is C.
        name = "C0" if letter == "C" else letter
        source = os.path.realpath(stored.path)
        for target in map(os.path.realpath, starts):
            same = os.path.exists(target) and os.path.samefile(target, source)
            if same or _lies_in(target, source) or _lies_in(source, target):
                how = "is" if same else "and"
                what = f"the file of {name}" + ("" if same else " lie in one another")
                raise PlanError(
                    f"the output {text!r} {how} {what}; inputs are never written to: "
                    "choose another name"
                )


def _lies_in(path: str, folder: str) -> bool:
    return path.startswith(folder + os.sep)
