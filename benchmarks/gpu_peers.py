"""Other libraries that multiply through int8, each in its own process.

cuBLAS reads its environment once, and GEMMul8 must be loaded before cuBLAS: their
effect on `cupy.matmul` cannot be switched within a process. The process runs this
script, which prints speeds and errors of `cupy.matmul` and of our product, a size a
line.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import twom_dist as td
from benchmarks.harness import ratios, tera
from benchmarks.reference import Reference

# Versions as in cublasGetVersion: 10000 major + 100 minor + patch. The wheel
# nvidia-cublas 13.10.0.20 was the newest in November 2026; 13.7 came with CUDA 13.4, in
# September.
NEWEST_KNOWN = 131000
FIRST_BY_2M = 130700

EMULATION = {
    f"cuBLAS {strategy}": {
        "CUBLAS_EMULATE_DOUBLE_PRECISION": "1",
        "CUBLAS_EMULATION_STRATEGY": strategy,
    }
    for strategy in ("eager", "performant")
}


def warn_of_age(version: int) -> str | None:
    """Return a warning if cuBLAS is older than the newest known version."""
    if version >= NEWEST_KNOWN:
        return None
    other = "" if version >= FIRST_BY_2M else ", which multiplies by 2M itself"
    old, new = version_name(version), version_name(NEWEST_KNOWN)
    return f"warning: cuBLAS {old} is older than {new}{other}: install nvidia-cublas"


def version_name(version: int) -> str:
    """Write 130100 as 13.1.0."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def find_peers(gemmul8: str | None) -> dict[str, dict[str, str]]:
    """Name the peers, each with its environment.

    GEMMul8's library is C++ with templates; loaded first, it takes over the calls of
    cuBLAS that `cupy.matmul` makes (its README, "Hook Mode").
    """
    if gemmul8 is None:
        return EMULATION
    hook = {
        "LD_PRELOAD": os.path.realpath(gemmul8),
        "GEMMUL8_BACKEND": "INT8",
        "GEMMUL8_NUM_MOD_Z": "15",
    }
    modes = {"accurate": "0", "fast": "1"}
    return EMULATION | {
        f"GEMMul8 {mode}, 15 moduli": {**hook, "GEMMUL8_FASTMODE_Z": flag}
        for mode, flag in modes.items()
    }


def find_unloaded(environment: Mapping[str, str], maps: str) -> list[str]:
    """List the libraries of LD_PRELOAD that are not in a process's memory map.

    The loader silently goes on without a library that it cannot load, and native
    products would pass for those of the peer.
    """
    return [x for x in environment.get("LD_PRELOAD", "").split(":") if x not in maps]


def compare(
    peers: Mapping[str, Mapping[str, str]],
    sizes: Sequence[int],
    num_moduli: int,
    repeats: int,
    timeout: float,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each peer with the results of its process; warn of failures."""
    given = ",".join(map(str, sizes)), str(num_moduli), str(repeats)
    for name, environment in peers.items():
        command = [sys.executable, __file__, *given]
        results, failure = run_peer(command, environment, timeout)
        for found in results:
            yield name, found
        if failure:
            print(f"warning: {name}: {failure}", file=sys.stderr)


def run_peer(
    command: Sequence[str], environment: Mapping[str, str], timeout: float
) -> tuple[list[dict[str, Any]], str]:
    """Return the results of a process, those before a failure included, and a failure.

    The latter is one line, or "".
    """
    with subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            printed, errors = process.communicate(timeout=timeout)
            lines = errors.strip().splitlines() or ["no message"]
            failure = lines[-1] if process.returncode else ""
        except subprocess.TimeoutExpired:
            process.kill()
            printed, _ = process.communicate()
            failure = f"stopped after {timeout:.0f} seconds"
    return read_results(printed), failure


def read_results(printed: str) -> list[dict[str, Any]]:
    """Parse the lines that are JSON objects; other lines are messages of libraries."""
    found = []
    for line in printed.splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return [x for x in found if isinstance(x, dict)]


def measure(n: int, num_moduli: int, repeats: int) -> dict[str, Any]:
    """Time n x n products in turns, and measure their errors."""
    import cupy as cp

    from benchmarks.gpu_clock import random_pair, time_calls

    cp.get_default_memory_pool().free_all_blocks()
    A, B = random_pair(n)
    candidates = {
        "peer": partial(cp.matmul, A, B),
        "2m": partial(td.gemm, A, B, num_moduli=num_moduli),
    }
    seconds = time_calls(candidates, repeats)
    reference = Reference(A, B)
    return {
        "n": n,
        "num_moduli": num_moduli,
        "tflops": tera(seconds, 8 * n**3),
        "over_peer": ratios(seconds, "peer")["2m"],
        "error": {name: reference.errors(x()) for name, x in candidates.items()},
        "seconds": seconds,
    }


def main(sizes: str, num_moduli: str, repeats: str) -> None:
    """Measure each size, small ones first."""
    from benchmarks.gpu_clock import cublas_version

    version = cublas_version()
    unloaded = find_unloaded(os.environ, Path("/proc/self/maps").read_text())
    if unloaded:
        sys.exit(f"the loader could not load {unloaded[0]}")
    for n in sorted(map(int, sizes.split(","))):
        found = measure(n, int(num_moduli), int(repeats))
        print(json.dumps(found | {"cublas": version}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
