"""Opening a job: everything that can be known before any work."""

import os
from itertools import permutations
from typing import Any

from .. import problem
from ..errors import PlanError
from ..store import StoredMatrix, find_unfinished, open_matrix
from .job import Job, Path


def open_job(
    routine: str,
    a: Path,
    b: Path | None,
    output: Path,
    *,
    c: Path | None = None,
    overwrite: bool = False,
    refuse_missing: bool = False,
    verify: bool = False,
    **arguments: Any,
) -> Job:
    """Open the inputs and check all that can be known from their headers.

    Arguments and errors are those of `multiply_files` and `update_files`; b is None for
    herk and syrk.
    """
    rule = problem.find_routine(routine)
    problem.check_matrices(rule, a, b)
    given = {"A": a, "B": b, "C": c}
    stored = {x: open_matrix(path) for x, path in given.items() if path is not None}
    _check_output(output, stored)
    A, B, C = (stored.get(name) for name in given)
    checked = problem.of_headers(rule, A, B, C, **arguments)
    return Job(checked, output, overwrite, refuse_missing, verify)


def _check_output(output: Path, inputs: dict[str, StoredMatrix]) -> None:
    """Refuse an output that would replace an input, or lie inside one."""
    target = find_unfinished(output).location.path
    for letter, stored in inputs.items():
        # The output is C.
        name = "C0" if letter == "C" else letter
        source = stored.path if "://" in stored.path else os.path.realpath(stored.path)
        same = source == target
        if "://" not in source + target:
            same = os.path.exists(target) and os.path.samefile(target, source)
        nested = any(x.startswith(f"{y}/") for x, y in permutations((source, target)))
        if same or nested:
            how = f"is the file of {name}" if same else f"and that of {name} are nested"
            raise PlanError(
                f"the output {target!r} {how}, and inputs are never written to",
                "Choose another name",
                "output-is-input",
            )
