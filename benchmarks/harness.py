"""A harness: interleaved runs in one process, one JSON line for each result.

A result holds every single time, not only the median, and its baselines come from the
same run: on shared machines absolute times say little, ratios say more.
"""

import json
import logging
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from twom_dist.crossover.chips import chip_of

PACKAGES = ("numpy", "dask", "distributed", "numba", "onnxruntime")


def device_name() -> str:
    """Return CPU model, cores and the instructions that matter here."""
    words = {*Path("/proc/cpuinfo").read_text().split()}
    known = ("avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")
    units = " ".join(x for x in known if x in words)
    return f"{chip_of('cpu').name}, {units or 'no VNNI'}"


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def commit() -> str:
    """Return the short hash of the source, with a mark if the tree differs from it."""
    call = ["git", "describe", "--always", "--dirty"]
    with suppress(FileNotFoundError):
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        return done.stdout.strip() or "unknown"
    return "unknown"


def interleave(
    candidates: Mapping[str, Callable[[], Any]], repeats: int
) -> dict[str, list[float]]:
    """Time each candidate in turn, `repeats` rounds after one that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    taken = dict.fromkeys(candidates, 0.0)
    for turn in range(repeats + 1):
        for name, call in candidates.items():
            # Idle BLAS threads spin for some 20 ms after a call, which must not count.
            time.sleep(0.1)
            if turn and taken[name] < 1:
                call()  # idle cores of a virtual machine take milliseconds to wake
            start = time.perf_counter()
            call()
            taken[name] = time.perf_counter() - start
            if turn:
                seconds[name].append(taken[name])
    return seconds


def ratios(seconds: Mapping[str, list[float]], baseline: str) -> dict[str, float]:
    """Return the median over all rounds of baseline time / candidate time."""
    return {
        name: median(b / t for b, t in zip(seconds[baseline], times, strict=True))
        for name, times in seconds.items()
    }


class Report:
    """Append JSON lines to a file, and print a short line for each."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.common = {
            "commit": commit(),
            "device": device_name(),
            "python": platform.python_version(),
            "versions": _versions(),
        }

    def add(self, benchmark: str, **fields: Any) -> None:
        """Write one result."""
        line = {"benchmark": benchmark, **fields, **self.common}
        shown = {
            k: v for k, v in fields.items() if k not in ("seconds", "plan", "errors")
        }
        print(benchmark, *(f"{k}={_short(v)}" for k, v in shown.items()), flush=True)
        if self.path:
            with Path(self.path).open("a") as file:
                file.write(json.dumps(line, default=str) + "\n")


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_short(v)}" for k, v in value.items()) + "}"
    return str(value)


@contextmanager
def start_client(workers: int) -> Iterator[Any]:
    """Start workers of one thread; the scheduler is a thread of this process."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=None,
            # The end of a cluster cuts off heartbeats, whose tracebacks are noise.
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def transfer_counters(client: Any) -> Iterator[dict[str, Any]]:
    """Collect the bytes sent meanwhile, and the peak managed bytes of each worker."""
    client.run(_start_sampling)
    found: dict[str, Any] = {}
    yield found
    answers = client.run(_stop_sampling)
    found["bytes_moved"] = sum(a["sent"] for a in answers.values())
    found["peak_managed_bytes"] = max(a["peak"] for a in answers.values())


def _start_sampling(dask_worker: Any) -> None:
    import asyncio

    dask_worker._bench_sent = dask_worker.transfer_outgoing_bytes_total
    dask_worker._bench_peak = 0

    async def sample() -> None:
        while True:
            managed = dask_worker.state.nbytes
            dask_worker._bench_peak = max(dask_worker._bench_peak, managed)
            await asyncio.sleep(0.005)

    dask_worker._bench_task = asyncio.ensure_future(sample())


def _stop_sampling(dask_worker: Any) -> dict[str, int]:
    dask_worker._bench_task.cancel()
    total = dask_worker.transfer_outgoing_bytes_total
    return {
        "sent": total - dask_worker._bench_sent,
        "peak": dask_worker._bench_peak,
    }
