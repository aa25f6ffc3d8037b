"""Checks that inputs are what they were when a run began, here and on the workers."""

from typing import Any

from ..errors import StoreError
from ..store import Place, StoredMatrix, open_matrix
from .job import Job
from .watchdog import ask

# For each input, by letter, a text that changes when any of its files does.
Stamps = dict[str, str]
# Path, member, fingerprint and number of chunks of an input: what its header and the
# names of its chunks tell.
Identity = list[Any]


def identify(stored: StoredMatrix) -> tuple[Identity, int]:
    """Identify an input without reading its chunks; count those that are missing."""
    there, whole = stored.count_chunks()
    member = stored.location.member or ""
    return [stored.path, member, stored.fingerprint, there], whole - there


def identify_inputs(job: Job) -> tuple[dict[str, Identity], dict[str, int]]:
    """Identify all inputs, and count the chunks that are missing, if any."""
    # One file may be two inputs.
    matrices = {*job.inputs.values()}
    seen = {stored: identify(stored) for stored in matrices}
    for stored in matrices:
        stored.check_content()
    missing = {}
    for name, stored in job.inputs.items():
        (*_, there), lacking = seen[stored]
        if lacking:
            missing[name] = lacking
        # If none exists, the folder was probably not copied whole.
        if lacking and (there == 0 or job.refuse_missing):
            count = "all" if there == 0 else str(lacking)
            raise StoreError(
                f"{count} of the {there + lacking} chunks of {str(stored.location)!r} "
                "are missing, and would be read as its fill value",
                "Copy it again, or write its zeros, with write_empty_chunks in zarr",
                "no-chunks" if there == 0 else "missing-chunks",
            )
    return {name: seen[stored][0] for name, stored in job.inputs.items()}, missing


def stamp_inputs(job: Job) -> Stamps:
    """Stamp every file of the inputs before any is read: none may change later."""
    stamps = {stored: stored.stamp() for stored in {*job.inputs.values()}}
    return {name: stamps[stored] for name, stored in job.inputs.items()}


def check_unchanged(job: Job, stamps: Stamps) -> None:
    """Raise if an input has changed since it was stamped."""
    for name, stored in job.inputs.items():
        try:
            same = stamps[name] == stored.stamp()
        except StoreError:
            same = False
        if not same:
            changed = f"{stored.path!r}, or its owner, permissions or links, changed"
            problem = f"{changed} since the run began, so the result may be a mixture"
            remedy = "Run the job again, and leave its inputs alone meanwhile"
            raise StoreError(f"{problem} and is discarded", remedy, "input-changed")


def check_workers(
    job: Job, inputs: dict[str, Identity], place: Place, client: Any
) -> None:
    """Refuse workers that do not see the files that this process sees."""
    expected = [(str(x.location), inputs[name]) for name, x in job.inputs.items()]
    for address, found in ask(client.run, _find_unlike, expected, place).items():
        if found is not None:
            problem, code = found
            share = "Keep the matrices where all workers find them"
            raise StoreError(f"the worker at {address} {problem}", share, code)


def _find_unlike(
    inputs: list[tuple[str, Identity]], place: Place
) -> tuple[str, str] | None:
    """Find the first file that differs from the client's; runs on workers."""
    doing = "read an input"
    try:
        for location, expected in inputs:
            if identify(open_matrix(location))[0] != expected:
                problem = f"finds another file than this process at {expected[0]!r}"
                return problem, "input-differs-on-worker"
        doing = "write the output"
        place.check_seen()
    except StoreError as error:
        return f"cannot {doing}: {error.problem}", "file-not-on-worker"
    return None
