"""A harness: interleaved runs in one process, one JSON line for each result.

A result holds every single time, not only the median, and its baselines come from the
same run: on shared machines absolute times say little, ratios say more.
"""

import argparse
import json
import logging
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from twom_dist.auto.chips import chip_of

PACKAGES = ("numpy", "dask", "distributed", "numba")
Calls = Mapping[str, Callable[[], Any]]


# --- clocks and rounds ----------------------------------------------------------------


def host_seconds(call: Callable[[], Any]) -> float:
    """Time a call that another one like it has just preceded, unless it takes long."""
    # Idle BLAS threads spin for some 20 ms after a call, which must not count.
    time.sleep(0.1)
    taken = wall_seconds(call)
    # Idle cores of a virtual machine take milliseconds to wake.
    return taken if taken >= 1 else wall_seconds(call)


def wall_seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def interleave(
    candidates: Calls,
    repeats: int,
    clock: Callable[[Callable[[], Any]], Any] = host_seconds,
) -> dict[str, list[Any]]:
    """Time each candidate in turn, `repeats` rounds after one that does not count."""
    found: dict[str, list[Any]] = {name: [] for name in candidates}
    for turn in range(repeats + 1):
        for name, call in candidates.items():
            taken = clock(call)
            if turn:
                found[name].append(taken)
    return found


def ratios(seconds: Mapping[str, list[float]], baseline: str) -> dict[str, float]:
    """Return the median over all rounds of baseline time / candidate time."""
    return {
        name: median(b / t for b, t in zip(seconds[baseline], times, strict=True))
        for name, times in seconds.items()
    }


def medians(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: median(values) for name, values in found.items()}


def tera(
    seconds: Mapping[str, list[float]], operations: float | Mapping[str, float]
) -> dict[str, float]:
    """Return 10^12 operations a second, from median times."""
    if not isinstance(operations, Mapping):
        operations = dict.fromkeys(seconds, operations)
    return {x: operations[x] / median(t) / 1e12 for x, t in seconds.items()}


# --- results --------------------------------------------------------------------------


def device_name() -> str:
    """Return CPU model, cores and the instructions that matter here."""
    words = {*Path("/proc/cpuinfo").read_text().split()}
    known = ("avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")
    units = " ".join(x for x in known if x in words)
    return f"{chip_of('cpu').name}, {units or 'no VNNI'}"


def commit() -> str:
    """Return the short hash of the source, with a mark if the tree differs from it."""
    call = ["git", "describe", "--always", "--dirty"]
    with suppress(FileNotFoundError, subprocess.CalledProcessError):
        done = subprocess.run(call, capture_output=True, check=True, text=True)
        return done.stdout.strip()
    return "unknown"


class Report:
    """Append JSON lines to a file, and print a short line for each."""

    def __init__(self, path: str | None) -> None:
        self.path = path and Path(path).absolute()
        self.common: dict[str, Any] = {
            "commit": commit(),
            "device": device_name(),
            "python": platform.python_version(),
            "versions": {},
        }
        for name in PACKAGES:
            with suppress(PackageNotFoundError):
                self.common["versions"][name] = version(name)

    def add(self, benchmark: str, **fields: Any) -> None:
        line = {"benchmark": benchmark, **fields, **self.common}
        too_long = ("seconds", "plan", "errors")
        shown = {k: v for k, v in fields.items() if k not in too_long}
        print(benchmark, *(f"{k}={_short(v)}" for k, v in shown.items()), flush=True)
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps(line, default=str) + "\n")


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_short(v)}" for k, v in value.items()) + "}"
    return str(value)


# --- the command line -----------------------------------------------------------------

Part = Callable[[Report, argparse.Namespace], None]


def parse(
    doc: str,
    names: Sequence[str] = (),
    given: Sequence[str] | None = None,
    **options: Any,
) -> argparse.Namespace:
    """Read options whose defaults tell their types; lists are joined by commas."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if len(names) > 1:
        options = {"parts": [*names], **options}
    for name, default in {**options, "output": None}.items():
        flag = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(flag, action="store_true")
            continue
        read = str if default is None else type(default)
        if read is list:
            read = partial(_split, type(default[0]) if default else str)
        parser.add_argument(flag, type=read, default=default)
    args = parser.parse_args(given)
    unknown = {*vars(args).get("parts", names)} - {*names}
    if unknown:
        parser.error(f"there are parts {', '.join(names)}, and not {unknown}")
    return args


def _split(kind: Callable[[str], Any], text: str) -> list[Any]:
    return [kind(x) for x in text.split(",")]


def run(doc: str, *parts: Part, **options: Any) -> None:
    """Run the parts that the command line asks for, or all, with these options.

    The name of ``bench_eager`` is "eager".
    """
    named = {x.__name__.removeprefix("bench_"): x for x in parts}
    args = parse(doc, [*named], **options)
    report = Report(args.output)
    # Those that write files have an option that tells where.
    for name in vars(args).get("parts", named):
        with ExitStack() as stack:
            if "folder" in args:
                folder = tempfile.TemporaryDirectory(dir=args.folder)
                stack.enter_context(chdir(stack.enter_context(folder)))
            named[name](report, args)


# --- workers --------------------------------------------------------------------------


@contextmanager
def start_client(workers: int, threads: int = 1, **options: Any) -> Iterator[Any]:
    """Start workers; the scheduler is a thread of this process."""
    from distributed import Client, LocalCluster

    given: dict[str, Any] = {
        "n_workers": workers,
        "threads_per_worker": threads,
        "dashboard_address": None,
        # The end of a cluster cuts off heartbeats, whose tracebacks are noise.
        "silence_logs": logging.CRITICAL,
    }
    with LocalCluster(**given | options) as cluster, Client(cluster) as client:
        yield client


def draw_lazily(shape: tuple[int, int], chunks: Any, seed: int = 1) -> Any:
    import dask.array as da

    rng = da.random.default_rng(seed)
    x, y = (rng.standard_normal(shape, chunks=chunks) for _ in range(2))
    return x + 1j * y
