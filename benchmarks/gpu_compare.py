"""Print the speed and the errors of `cupy.matmul` and of our product, a size a line.

bench_gpu.py and figures.py run this script in an environment in which another library
multiplies.
"""

import json
import os
import sys
from pathlib import Path
from statistics import median
from typing import Any

import cupy as cp
from gpu_clock import random_pair, time_calls
from gpu_device import cublas_version
from gpu_peers import find_unloaded
from gpu_reference import Reference
from harness import ratios

import twom_dist as td


def compare(n: int, num_moduli: int, repeats: int) -> dict[str, Any]:
    """Time n x n products in turns, and measure their errors."""
    cp.get_default_memory_pool().free_all_blocks()
    A, B = random_pair(n)
    candidates = {
        "peer": lambda: cp.matmul(A, B),
        "2m": lambda: td.gemm(A, B, num_moduli=num_moduli),
    }
    seconds = time_calls(candidates, repeats)
    reference = Reference(A, B)
    return {
        "n": n,
        "num_moduli": num_moduli,
        "tflops": {k: 8 * n**3 / median(t) / 1e12 for k, t in seconds.items()},
        "over_peer": ratios(seconds, "peer")["2m"],
        "error": {name: reference.errors(x()) for name, x in candidates.items()},
        "seconds": seconds,
    }


def main(sizes: str, num_moduli: str, repeats: str) -> None:
    """Compare at each size, small ones first."""
    version = cublas_version()
    unloaded = find_unloaded(os.environ, Path("/proc/self/maps").read_text())
    if unloaded:
        sys.exit(f"the loader could not load {unloaded[0]}")
    for n in sorted(map(int, sizes.split(","))):
        found = compare(n, int(num_moduli), int(repeats))
        print(json.dumps(found | {"cublas": version}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
