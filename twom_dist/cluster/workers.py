"""The workers of a cluster: whether they agree, and how fast blocks get around."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from ..config import rate_setting
from ..plan.record import format_bytes
from .engines import TOO_HOPEFUL
from .limits import INTERPRETER_BYTES, SPILL, round_up, tile_bytes
from .report import Finding, failure, fine, warning

# The size of block that the assumed rate was measured with.
_BLOCK_BYTES = 64 << 20
_SETTING = "link-bytes-per-second"
_LINK_SECONDS = 30
# With different versions of these, messages or tasks cannot be read.
_MUST_AGREE = ("python", "dask", "distributed")

_SCHEDULER = "scheduler"

Told = dict[str, dict[str, Any]]


def check_workers(client: Any) -> Iterator[Finding]:
    """Count the workers, compare them, and send a block from one to another."""
    threads = client.nthreads()
    address = client.scheduler.address
    if not threads:
        advice = "start some with `dask worker` or `dask cuda worker`"
        yield failure("workers", f"none at {address}", advice)
        return
    total = sum(threads.values())
    yield fine("workers", f"{len(threads)} at {address}, threads in all: {total}")
    yield _check_memory(client)
    yield from compare_processes(client)
    yield _check_link(client)


def _check_memory(client: Any) -> Finding:
    """Compare the least memory limit with what a process takes before any tile."""

    # Sent by value, as below.
    def list_limits(dask_scheduler: Any) -> list[int]:
        return [ws.memory_limit or 0 for ws in dask_scheduler.workers.values()]

    name = "worker memory"
    limits = [limit for limit in client.run_on_scheduler(list_limits) if limit]
    if not limits:
        return fine(name, "without limits")
    least, most = format_bytes(min(limits)), format_bytes(max(limits))
    found = f"limits of {least}" + (f" to {most}" if most != least else "")
    if tile_bytes(min(limits)) > 0:
        return fine(name, found)
    return warning(
        name,
        f"{found}: no room for a tile of a file, as a process takes "
        f"{format_bytes(INTERPRETER_BYTES)} of the {SPILL:.0%} before dask writes to "
        "disk",
        f"give each more than {format_bytes(round_up(INTERPRETER_BYTES / SPILL))}",
    )


def compare_processes(client: Any) -> Iterator[Finding]:
    """Compare what this process, the scheduler and the workers have installed.

    Failures are what keeps messages from being read, or makes different results.
    """
    yield from _compare_packages(client.get_versions(check=False))
    describe = _make_describe()
    # The scheduler reads the tasks before it sends them.
    told = {_SCHEDULER: client.run_on_scheduler(describe)}
    # A worker that has just died is no matter.
    yield from _compare_installations(told | client.run(describe, on_error="ignore"))


def _compare_packages(versions: dict[str, Any]) -> Iterator[Finding]:
    """Compare the versions that distributed knows of this process and all others."""
    places = {
        "here": versions["client"],
        _SCHEDULER: versions["scheduler"],
        **versions["workers"],
    }
    told = {place: dict(x["packages"]) for place, x in places.items() if x}
    for packages in told.values():
        # Patches of one release read each other's messages.
        packages["python"] = ".".join(packages["python"].split(".")[:2])
    yield from _compare(
        "worker packages",
        told,
        advice="install the same everywhere",
        must_agree=_MUST_AGREE,
    )


def _compare_installations(told: Told) -> Iterator[Finding]:
    """Compare twom_dist and its settings here and everywhere else."""
    name, package = "worker twom-dist", "twom_dist"
    advice = "install the same release everywhere"
    missing = [place for place, x in told.items() if "error" in x]
    if missing:
        found = f"{package} is missing in {len(missing)} of {len(told)} processes"
        first = f"{missing[0]}: {told[missing[0]]['error']}"
        yield failure(name, f"{found} ({first})", advice)
    present = {place: x for place, x in told.items() if place not in missing}
    present = {"here": _make_describe()(), **present}
    versions = {place: {package: x["version"]} for place, x in present.items()}
    yield from _compare(name, versions, advice=advice, must_agree=(package,))
    settings = {p: x["settings"] for p, x in present.items() if p != _SCHEDULER}
    # Tasks bring method, moduli and tiles with them: these cost speed and memory.
    yield from _compare(
        "worker settings",
        settings,
        prefix="twom-dist.",
        advice="set it in a dask YAML file that all read, or before workers start",
    )


def _compare(
    name: str,
    told: Told,
    *,
    advice: str,
    must_agree: tuple[str, ...] = (),
    prefix: str = "",
) -> Iterator[Finding]:
    """Make a finding of each key whose values differ between places."""
    keys = sorted({key for x in told.values() for key, v in x.items() if v is not None})
    agreed = True
    for key in keys:
        where: dict[str, list[str]] = {}
        for place, values in told.items():
            where.setdefault(str(values.get(key)), []).append(place)
        if len(where) > 1:
            agreed = False
            make = failure if key in must_agree else warning
            yield make(name, f"{prefix}{key} is {_list_places(where)}", advice)
    if agreed:
        yield fine(name, f"the same in all {len(told)} processes")


def _list_places(where: dict[str, list[str]]) -> str:
    """Say which value is where: ``1 (here), 2 (tcp://a:1 and 3 more)``."""
    return ", ".join(
        f"{value} ({places[0]}"
        + (f" and {len(places) - 1} more)" if len(places) > 1 else ")")
        for value, places in where.items()
    )


def _make_describe() -> Callable[[], dict[str, Any]]:
    def describe() -> dict[str, Any]:
        from importlib import import_module

        try:
            version = import_module("twom_dist").__version__
        except ImportError as error:
            return {"error": str(error)}
        settings = import_module("dask").config.get("twom-dist")
        return {"version": version, "settings": settings}

    # Local, and so sent by value: a worker without twom_dist can say so.
    return describe


def _check_link(client: Any) -> Finding:
    """Send a block between two workers, of two hosts where there are."""

    # This function is sent by value, as above.
    def has_cupy() -> bool:
        import sys
        from importlib.util import find_spec

        # A worker on a machine with GPUs need not be there for them.
        return "dask_cuda" in sys.modules and find_spec("cupy") is not None

    name = "worker link"
    source, *others = sorted(client.nthreads())
    if not others:
        return fine(name, "one worker: nothing travels")
    host = urlsplit(source).hostname
    elsewhere = [x for x in others if urlsplit(x).hostname != host]
    target = (elsewhere or others)[0]
    cupy = all(client.run(has_cupy, workers=[source, target]).values())
    try:
        rate = _send(client, source, target, "cupy" if cupy else "numpy")
    except TimeoutError:
        found = f"no block went from {source} to {target} in {_LINK_SECONDS} s"
        return failure(name, found, "see whether they are busy, or behind a firewall")
    assumed = rate_setting(_SETTING)
    found = (
        f"{rate / 1e9:.2g} GB/s from {source} to {target}, "
        f"{'CuPy' if cupy else 'NumPy'} (plans assume {assumed / 1e9:.2g})"
    )
    if rate * TOO_HOPEFUL < assumed:
        advice = "use a faster protocol or interface, or set "
        return warning(name, found, f"{advice}twom-dist.{_SETTING} to {rate:.1e}")
    return fine(name, found)


def _send(client: Any, source: str, target: str, family: str) -> float:
    """Bytes per second as the receiver logs them: the better of two blocks."""

    # These functions are sent by value, as above.
    def make() -> Any:
        from importlib import import_module

        # Noise, for comms that compress.
        noise = import_module("numpy").random.default_rng(0).bytes(_BLOCK_BYTES)
        host = import_module("numpy").frombuffer(noise, "u1")
        return import_module(family).asarray(host)

    rates: list[float] = []
    # The first opens the connection.
    for _ in range(2):
        block = client.submit(make, workers=[source], pure=False)
        arrived = client.submit(lambda x: x.nbytes, block, workers=[target], pure=False)
        arrived.result(timeout=_LINK_SECONDS)
        log = client.run(
            lambda dask_worker: list(dask_worker.transfer_incoming_log)[-1],
            workers=[target],
        )
        rates.append(log[target]["bandwidth"])
    return max(rates)
