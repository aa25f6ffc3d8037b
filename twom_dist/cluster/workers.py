"""Whether the scheduler and the workers of a cluster agree with this process."""

from collections.abc import Callable, Iterator
from typing import Any

from .report import Finding, Status

# Where these differ, messages or tasks cannot be read.
_MUST_AGREE = ("python", "dask", "distributed", "twom_dist")


def check_workers(client: Any) -> Iterator[Finding]:
    """Count the workers, and compare them with this process."""
    threads = client.nthreads()
    address = client.scheduler.address
    if not threads:
        advice = "Start some with `dask worker` or `dask cuda worker`"
        yield Finding("workers", "failure", f"there are none at {address}", advice)
        return
    total = sum(threads.values())
    found = f"{len(threads)} at {address}, {total} threads in all"
    yield Finding("workers", "ok", found)
    yield from compare_processes(client)


def compare_processes(client: Any) -> Iterator[Finding]:
    """Compare what is installed here, at the scheduler and at the workers.

    Differences that keep messages from being read, or change the result, are failures.
    They come first, since a process that cannot read messages cannot be asked more.
    """
    versions = client.get_versions(check=False)
    places = {
        "here": versions["client"],
        "scheduler": versions["scheduler"],
        **versions["workers"],
    }
    told = {place: dict(x["packages"]) for place, x in places.items() if x}
    for packages in told.values():
        # Patches of one release read each other's messages.
        packages["python"] = ".".join(packages["python"].split(".")[:2])
    yield from _compare("worker packages", told)
    # The scheduler reads the tasks before it sends them; a worker that has just died
    # does not matter.
    find_version = _make_find_version()
    own = {"here": find_version(), "scheduler": client.run_on_scheduler(find_version)}
    own |= client.run(find_version, on_error="ignore")
    yield from _compare("worker twom-dist", {x: {"twom_dist": own[x]} for x in own})


def _make_find_version() -> Callable[[], str | None]:
    # Local, and so sent by value: a worker without twom_dist can say so.
    def find_version() -> str | None:
        from importlib import import_module

        try:
            return str(import_module("twom_dist").__version__)
        except ImportError:
            return None

    return find_version


def _compare(name: str, told: dict[str, dict[str, str | None]]) -> Iterator[Finding]:
    """Make a finding for each package whose version differs, failures first."""
    packages = {package for versions in told.values() for package in versions}
    agreed = True
    for package in sorted(packages, key=lambda x: (x not in _MUST_AGREE, x)):
        where: dict[str, list[str]] = {}
        for place, versions in told.items():
            where.setdefault(versions.get(package) or "missing", []).append(place)
        if len(where) > 1:
            agreed = False
            status: Status = "failure" if package in _MUST_AGREE else "warning"
            found = f"{package} is {_list_places(where)}"
            yield Finding(name, status, found, "Install the same release everywhere")
    if agreed:
        yield Finding(name, "ok", f"the same in all {len(told)} processes")


def _list_places(where: dict[str, list[str]]) -> str:
    """Say which version is where: ``1 (here), 2 (tcp://a:1 and 3 more)``."""
    return ", ".join(
        f"{version} ({places[0]}"
        + (f" and {len(places) - 1} more)" if len(places) > 1 else ")")
        for version, places in where.items()
    )
