"""Whether the workers have the packages that a job needs, and the same ones."""

from typing import Any

from ..cluster.report import Finding
from ..cluster.workers import compare_processes
from ..errors import StoreError
from .watchdog import ask


def check_versions(client: Any) -> None:
    """Refuse workers that could not read the tasks, or would make other bits.

    Other settings of twom_dist are not refused: they change no bit of the result.
    """
    failure = ask(_find_failure, client)
    if failure is not None:
        remedy = failure.advice[:1].upper() + failure.advice[1:]
        raise StoreError(failure.found, remedy, "versions-differ")


def _find_failure(client: Any) -> Finding | None:
    """Return the first failure: what comes after it may not be readable."""
    findings = compare_processes(client)
    return next((x for x in findings if x.status == "failure"), None)
