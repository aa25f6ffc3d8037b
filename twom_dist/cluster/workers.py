"""Whether the scheduler and the workers of a cluster agree with this process."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from .report import Finding, Status

# Where these differ, messages or tasks cannot be read.
_MUST_AGREE = ("python", "dask", "distributed", "twom_dist")


def check_workers(client: Any) -> Iterator[Finding]:
    """Count the workers, and compare them with this process."""
    threads, address = client.nthreads(), client.scheduler.address
    if not threads:
        advice = "Start some with `dask worker` or `dask cuda worker`"
        yield Finding("workers", "failure", f"there are none at {address}", advice)
        return
    found = f"{len(threads)} at {address}, {sum(threads.values())} threads in all"
    yield Finding("workers", "ok", found)
    yield from compare_processes(client)


def compare_processes(client: Any) -> list[Finding]:
    """Compare what is installed here, at the scheduler and at the workers.

    Differences that keep messages from being read, or change the result, are failures,
    and come first.
    """
    versions = client.get_versions(check=False, packages=["twom_dist"])
    told = {"here": versions["client"], "scheduler": versions["scheduler"]}
    told |= versions["workers"]
    places: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for place, answer in told.items():
        for package, version in answer["packages"].items():
            if package == "python":
                # Patches of one release read each other's messages.
                version = ".".join(version.split(".")[:2])
            places[package][version or "missing"].append(place)
    findings = []
    for package in sorted(places, key=lambda x: (x not in _MUST_AGREE, x)):
        if len(places[package]) > 1:
            status: Status = "failure" if package in _MUST_AGREE else "warning"
            found = f"{package} is {_list_places(places[package])}"
            advice = "Install the same release everywhere"
            findings.append(Finding("packages", status, found, advice))
    same = f"the same in all {len(told)} processes"
    return findings or [Finding("packages", "ok", same)]


def _list_places(where: dict[str, list[str]]) -> str:
    """Say which version is where: ``1 (here), 2 (tcp://a:1 and 3 more)``."""
    return ", ".join(
        f"{version} ({places[0]}"
        + (f" and {len(places) - 1} more)" if len(places) > 1 else ")")
        for version, places in where.items()
    )
