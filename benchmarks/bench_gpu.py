"""Measure products of CuPy arrays: ceilings, stages, shapes, moduli; cuBLAS beside.

python benchmarks/bench_gpu.py --sizes 1024,2048,4096,8192,16384 --output FILE
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

import cupy as cp
from gpu_ceilings import find_floors, measure_ceilings
from gpu_clock import (
    measure_peak,
    measure_phases,
    random_matrix,
    time_calls,
    time_host,
)
from harness import Report, ratios

import twom_dist as td
from twom_dist.errors import EngineUnavailableError
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda import tuning
from twom_dist.kernels.cuda.device import CudaDevice

NUM_MODULI = 16
# Ragged ones beside the next round ones.
SIZES = "512,1000,1024,2048,3000,4095,4096,4100,5000,8192,16384"
# cuBLAS with its own emulation of FP64, asked for through the environment.
EMULATION = {
    "eager": {"CUBLAS_EMULATION_STRATEGY": "eager"},
    "performant": {"CUBLAS_EMULATION_STRATEGY": "performant"},
}
# Candidates whose stages are measured.
PHASED = ("2m", "herk", "syrk")


def bench_square(
    report: Report, n: int, repeats: int, ceilings: Mapping[str, float]
) -> None:
    """Time n x n products and rank-n updates: stages, peers, memory, error."""
    cp.get_default_memory_pool().free_all_blocks()
    A, B = random_matrix(n), random_matrix(n)
    candidates: dict[str, Callable[[], Any]] = {
        "2m": lambda: td.gemm(A, B, num_moduli=NUM_MODULI),
        "default": lambda: td.gemm(A, B),
        "2m, cuBLAS": unfused(lambda: td.gemm(A, B, num_moduli=NUM_MODULI)),
        "3m": lambda: td.gemm(A, B, num_moduli=NUM_MODULI - 1, method="3m"),
        "cupy.matmul": lambda: cp.matmul(A, B),
        "herk": lambda: td.herk(A, num_moduli=NUM_MODULI),
        "syrk": lambda: td.syrk(A, num_moduli=NUM_MODULI),
    }
    seconds = time_calls(candidates, repeats)
    operations = dict.fromkeys(candidates, 8 * n**3)
    operations |= dict.fromkeys(("herk", "syrk"), 4 * n**3)
    phases = {name: measure_phases(candidates[name]) for name in PHASED}
    outside = {
        name: 1 - found["int8 products"] / sum(found.values())
        for name, found in phases.items()
    }
    report.add(
        "gpu",
        n=n,
        num_moduli=NUM_MODULI,
        tflops={
            name: operations[name] / median(times) / 1e12
            for name, times in seconds.items()
        },
        over_matmul=ratios(seconds, "cupy.matmul"),
        over_gemm=ratios(seconds, "2m"),
        milliseconds=phases,
        floor_milliseconds={
            name: find_floors((n, n, n), NUM_MODULI, ceilings, update=name != "2m")
            for name in PHASED
        },
        share_outside_products=outside,
        int8_tops=64 * n**3 / phases["2m"]["int8 products"] / 1e9,
        peak_bytes=measure_peak(candidates["2m"]),
        relative_error=relative_error(A, B, candidates["2m"]()),
        seconds=seconds,
    )


def unfused(call: Callable[[], Any]) -> Callable[[], Any]:
    """Have cuBLAS multiply and a second kernel reduce."""

    def run() -> Any:
        capability = CudaDevice().capability()
        own = tuning.tuning_for(capability)
        tuning.BY_CAPABILITY[capability] = replace(own, fused=False)
        try:
            return call()
        finally:
            tuning.BY_CAPABILITY[capability] = own

    return run


def bench_moduli(report: Report, n: int, repeats: int) -> None:
    """Time n x n products of 8 to 18 moduli."""
    A, B = random_matrix(n), random_matrix(n)
    counts = range(8, 19)
    candidates: dict[str, Callable[[], Any]] = {
        str(count): lambda count=count: td.gemm(A, B, num_moduli=count)
        for count in counts
    }
    candidates["cupy.matmul"] = lambda: cp.matmul(A, B)
    seconds = time_calls(candidates, repeats)
    report.add(
        "gpu-moduli",
        n=n,
        tflops={k: 8 * n**3 / median(t) / 1e12 for k, t in seconds.items()},
        over_matmul=ratios(seconds, "cupy.matmul"),
        relative_error={
            str(count): relative_error(A, B, candidates[str(count)]())["2m"]
            for count in counts
        },
        seconds=seconds,
    )


def bench_small(report: Report, n: int = 64) -> None:
    """Time what the host needs to launch a product, where the device needs less."""
    A = random_matrix(n)
    candidates: dict[str, Callable[[], Any]] = {
        "gemm": lambda: td.gemm(A, A, num_moduli=NUM_MODULI),
        "herk": lambda: td.herk(A, num_moduli=NUM_MODULI),
        "cupy.matmul": lambda: cp.matmul(A, A),
    }
    microseconds = {name: 1e6 * time_host(call) for name, call in candidates.items()}
    report.add("gpu-host", n=n, num_moduli=NUM_MODULI, microseconds=microseconds)


def bench_nonfinite(report: Report, n: int, repeats: int) -> None:
    """Time the fill of a product whose B has a column with a NaN."""
    A, B = random_matrix(n), random_matrix(n)
    clean = measure_phases(lambda: td.gemm(A, B, num_moduli=NUM_MODULI), repeats)
    B[n // 2, n // 3] = cp.nan
    found = measure_phases(lambda: td.gemm(A, B, num_moduli=NUM_MODULI), repeats)
    milliseconds = {"clean": clean["fill"], "one column": found["fill"]}
    report.add("gpu-fill", n=n, num_moduli=NUM_MODULI, milliseconds=milliseconds)


def bench_shapes(report: Report, repeats: int) -> None:
    """Time tall, wide and long products."""
    for m, n, k in ((65536, 1024, 1024), (1024, 65536, 1024), (2048, 2048, 131072)):
        A, B = random_matrix(m, k), random_matrix(k, n)
        candidates: dict[str, Callable[[], Any]] = {
            "2m": lambda a=A, b=B: td.gemm(a, b, num_moduli=NUM_MODULI),
            "cupy.matmul": lambda a=A, b=B: cp.matmul(a, b),
        }
        seconds = time_calls(candidates, repeats)
        report.add(
            "gpu-shapes",
            shape=f"{m} x {n} x {k}",
            num_moduli=NUM_MODULI,
            tflops={
                name: 8 * m * n * k / median(t) / 1e12 for name, t in seconds.items()
            },
            over_matmul=ratios(seconds, "cupy.matmul"),
            milliseconds=measure_phases(candidates["2m"]),
            seconds=seconds,
        )
        del A, B


def bench_dtypes(report: Report, n: int, repeats: int) -> None:
    """Time n x n products of the other dtypes, each at its default accuracy."""
    for dtype in ("complex64", "float64", "float32"):
        pair = [random_matrix(n), random_matrix(n)]
        if not dtype.startswith("complex"):
            pair = [x.real for x in pair]
        A, B = (x.astype(dtype) for x in pair)
        del pair
        candidates: dict[str, Callable[[], Any]] = {
            "gemm": lambda a=A, b=B: td.gemm(a, b),
            "cupy.matmul": lambda a=A, b=B: cp.matmul(a, b),
            "syrk": lambda a=A: td.syrk(a),
        }
        seconds = time_calls(candidates, repeats)
        whole = (8 if dtype.startswith("complex") else 2) * n**3
        operations = dict.fromkeys(candidates, whole) | {"syrk": whole // 2}
        report.add(
            "gpu-dtypes",
            n=n,
            dtype=dtype,
            tflops={k: operations[k] / median(t) / 1e12 for k, t in seconds.items()},
            over_matmul=ratios(seconds, "cupy.matmul"),
            over_gemm=ratios(seconds, "gemm"),
            relative_error=relative_error(A, B, candidates["gemm"]()),
            seconds=seconds,
        )


def relative_error(A: Any, B: Any, C: Any) -> dict[str, float]:
    """Norm of ``(C - A B) x`` over that of ``|A| |B| |x|``, x random; cuBLAS beside."""
    x = cp.random.standard_normal((A.shape[0], 4)).astype(complex)
    exact, scale = A @ (B @ x), cp.abs(A) @ (cp.abs(B) @ cp.abs(x))
    return {
        name: float(cp.linalg.norm(Z @ x - exact) / cp.linalg.norm(scale))
        for name, Z in (("2m", C), ("cupy.matmul", A @ B))
    }


def bench_emulation(report: Report, sizes: list[int], repeats: int) -> None:
    """Time cuBLAS's own emulation, in a process whose environment asks for it."""
    for name, extra in EMULATION.items():
        environment = {**os.environ, "CUBLAS_EMULATE_DOUBLE_PRECISION": "1", **extra}
        command = [sys.executable, __file__, "--peer", "--repeats", str(repeats)]
        command += ["--sizes", ",".join(map(str, sizes))]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"emulation {name}: {done.stderr[-300:]}", flush=True)
            continue
        for n, tflops in json.loads(done.stdout.splitlines()[-1]).items():
            report.add("gpu-emulation", n=int(n), strategy=name, tflops=tflops)


def run_peer(sizes: list[int], repeats: int) -> None:
    """Print the speed of ``cupy.matmul`` in this environment, by size."""
    found = {}
    for n in sizes:
        A, B = random_matrix(n), random_matrix(n)
        times = time_calls({"matmul": lambda a=A, b=B: cp.matmul(a, b)}, repeats)
        found[n] = 8 * n**3 / median(times["matmul"]) / 1e12
        del A, B
    print(json.dumps(found))


def describe_device() -> str:
    """Name, memory, CUDA and cuBLAS of the current device."""
    properties = cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)
    version = cp.cuda.cublas.getVersion(cp.cuda.device.get_cublas_handle())
    return (
        f"{properties['name'].decode()}, {properties['totalGlobalMem'] >> 30} GiB, "
        f"CUDA {cp.cuda.runtime.runtimeGetVersion()}, cuBLAS {version}"
    )


def main() -> None:
    """Run the sizes asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", help="append JSON lines to this file")
    parser.add_argument("--peer", action="store_true", help="time cupy.matmul alone")
    args = parser.parse_args()
    sizes = [int(n) for n in args.sizes.split(",")]
    if args.peer:
        run_peer(sizes, args.repeats)
        return
    try:
        get_engine("cuda")
    except EngineUnavailableError as error:
        sys.exit(f"bench_gpu.py: {error}")
    report = Report(args.output)
    report.common |= {"device": describe_device(), "cupy": cp.__version__}
    ceilings = measure_ceilings(report)
    for n in sizes:
        bench_square(report, n, args.repeats, ceilings)
    bench_small(report)
    bench_nonfinite(report, 8192, args.repeats)
    bench_moduli(report, 4096, args.repeats)
    bench_shapes(report, args.repeats)
    bench_dtypes(report, 8192, args.repeats)
    bench_emulation(
        report, [n for n in sizes if n >= 2048 and n % 1024 == 0], args.repeats
    )


if __name__ == "__main__":
    main()
