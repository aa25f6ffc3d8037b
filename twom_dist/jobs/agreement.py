"""Whether the workers can do a job: the same packages that matter, everywhere."""

from typing import Any

from ..cluster.report import Finding
from ..cluster.workers import compare_processes
from ..errors import StoreError
from .waiting import ask


def check_agreement(client: Any) -> None:
    """Refuse workers that could not read the tasks, or would make other bits.

    Other settings of twom_dist are not refused: they change no bit of the result.

    Raises
    ------
    StoreError
        What differs, and where.
    """
    failure = ask(_find_failure, client)
    if failure is not None:
        raise StoreError(str(failure))


def _find_failure(client: Any) -> Finding | None:
    """Return the first failure: what comes after it may not be readable."""
    findings = compare_processes(client)
    return next((x for x in findings if x.status == "failure"), None)
