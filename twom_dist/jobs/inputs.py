"""Whether the inputs are what they were when a run began, here and on the workers."""

import os
from typing import Any

from ..errors import StoreError
from ..store import StoredMatrix
from .job import Job
from .watchdog import ask

# Path, member and stamp of each, by letter.
Stamps = dict[str, list[str]]


def stamp_inputs(job: Job) -> Stamps:
    """Look at the inputs as they are now."""
    return {
        name: [stored.path, stored.member or "", stored.stamp()]
        for name, stored in job.inputs.items()
    }


def check_unchanged(job: Job, begun: Stamps) -> None:
    """Refuse a result of inputs that have changed since the run began."""
    for name, stored in job.inputs.items():
        try:
            same = stored.stamp() == begun[name][2]
        except StoreError:
            same = False
        if not same:
            raise StoreError(
                f"{stored.path!r} has changed since the run began, so the result may "
                "be a mixture and is discarded",
                "Run the job again, and leave its inputs alone meanwhile",
                "input-changed",
            )


def check_workers(job: Job, output: str, client: Any) -> None:
    """Refuse workers that do not see the files that this process sees."""
    inputs = list(job.inputs.values())
    for address, found in ask(client.run, _find_unlike, inputs, output).items():
        if found is not None:
            problem, code = found
            share = "Keep the matrices on a file system that all workers share"
            raise StoreError(f"the worker at {address} {problem}", share, code)


def _find_unlike(inputs: list[StoredMatrix], output: str) -> tuple[str, str] | None:
    """Find the first file that is not here what it is elsewhere; runs on workers."""
    for stored in inputs:
        try:
            same = stored.is_here()
        except StoreError as error:
            return f"cannot read an input: {error.problem}", "file-not-on-worker"
        if not same:
            problem = f"finds another file than this process at {stored.path!r}"
            return problem, "input-differs-on-worker"
    if not os.path.exists(output):
        return f"does not find {output!r}", "file-not-on-worker"
    return None
