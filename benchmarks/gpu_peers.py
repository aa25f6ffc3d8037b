"""Other emulations of FP64, each in its own process: cuBLAS's, and GEMMul8.

cuBLAS reads its environment once: its effect on `cupy.matmul` cannot be switched within
a process. GEMMul8 is measured if the variable GEMMUL8_LIBRARY names its
libgemmul8.so. The process runs this script, which prints speeds and errors of the
peer's product and of ours, a size a line.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from ctypes import CDLL, c_double, c_void_p
from functools import partial
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
GEMMUL8, _MODULI = "GEMMUL8_LIBRARY", "GEMMUL8_NUM_MOD_Z"


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


def compare(
    sizes: Sequence[int], num_moduli: int, repeats: int, timeout: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each peer with the results of its process; warn of failures."""
    given = ",".join(map(str, sizes)), str(num_moduli), str(repeats)
    command = [sys.executable, __file__, *given]
    peers = dict(EMULATION)
    if GEMMUL8 in os.environ:
        peers["GEMMul8"] = {_MODULI: str(num_moduli)}
    for name, environment in peers.items():
        options: dict[str, Any] = {"env": os.environ | environment, "timeout": timeout}
        failure = ""
        try:
            done = subprocess.run(command, capture_output=True, check=False, **options)
            printed = done.stdout
            if done.returncode:
                failure = done.stderr.decode().strip().rpartition("\n")[2]
        except subprocess.TimeoutExpired as error:
            printed = error.stdout or b""
            failure = f"stopped after {timeout:.0f} seconds"
        # Those before a failure included; other lines are messages of libraries.
        for line in printed.decode().splitlines():
            if line.startswith("{"):
                yield name, json.loads(line)
        if failure:
            print(f"warning: {name}: {failure}", file=sys.stderr)


def multiply_by_gemmul8(A: Any, B: Any) -> Any:
    """Multiply square matrices by its cublasZgemm, by columns: C^T = B^T A^T."""
    import cupy as cp

    n, C = len(A), cp.empty_like(A)
    x, y, z = (c_void_p(t.data.ptr) for t in (B, A, C))
    one, zero = ((c_double * 2)(t, 0) for t in (1, 0))
    handle = c_void_p(cp.cuda.device.get_cublas_handle())
    multiply = CDLL(os.environ[GEMMUL8]).cublasZgemm_v2
    if multiply(handle, 0, 0, n, n, n, one, x, n, y, n, zero, z, n):
        raise RuntimeError("cublasZgemm of GEMMul8 failed")
    return C


def measure(n: int, num_moduli: int, repeats: int) -> dict[str, Any]:
    """Time n x n products in turns, and measure their errors."""
    import cupy as cp

    from benchmarks.gpu_clock import random_pair, time_calls

    cp.get_default_memory_pool().free_all_blocks()
    A, B = random_pair(n)
    peer = multiply_by_gemmul8 if _MODULI in os.environ else cp.matmul
    candidates = {
        "peer": partial(peer, A, B),
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
    from benchmarks.gpu_clock import cublas_version

    version = cublas_version()
    for n in sorted(map(int, sizes.split(","))):
        found = measure(n, int(num_moduli), int(repeats))
        print(json.dumps(found | {"cublas": version}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
