"""Measure products of CuPy arrays, and compare them with those of other libraries.

python benchmarks/bench_gpu.py --part ours --sizes 1024,4096 --output FILE
"""

import argparse
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import cupy as cp
from gpu_ceilings import measure_ceilings
from gpu_clock import random_pair
from gpu_device import cublas_version, describe_device
from gpu_energy import Meter, measure_energy, open_meter
from gpu_peers import compare, find_peers, warn_of_age
from gpu_products import (
    NUM_MODULI,
    bench_dtypes,
    bench_host,
    bench_moduli,
    bench_nonfinite,
    bench_shapes,
    bench_square,
    bench_stacks,
    bench_winograd,
)
from gpu_schedule import (
    ENERGY_SECONDS,
    ENERGY_SIZES,
    PARTS,
    PEER_SECONDS,
    REPEATS,
    SIZES,
    WINOGRAD_SIZES,
    estimate_seconds,
)
from harness import Report

import twom_dist as td
from twom_dist.errors import EngineUnavailableError
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda.device import CudaDevice


def run_ours(report: Report, args: argparse.Namespace) -> None:
    """Measure our products: sizes, stages, the host's time, moduli, shapes, stacks."""
    ceilings = measure_ceilings(report)
    for n in args.sizes:
        bench_square(report, n, args.repeats, ceilings)
    bench_host(report)
    bench_stacks(report, args.repeats)
    bench_nonfinite(report, 8192, args.repeats)
    bench_moduli(report, 4096, args.repeats)
    for n in WINOGRAD_SIZES:
        bench_winograd(report, n, args.repeats)
    bench_shapes(report, args.repeats)
    bench_dtypes(report, 8192, args.repeats)


def run_peers(report: Report, args: argparse.Namespace) -> None:
    """Compare joules with cuBLAS's, speed and errors with emulations of FP64."""
    warning = warn_of_age(cublas_version())
    if warning:
        print(warning, file=sys.stderr)
    meter = open_meter(cp.cuda.Device().pci_bus_id)
    for n in ENERGY_SIZES:
        bench_energy(report, n, meter)
    # The peers are other processes on the same device, and need its memory.
    cp.get_default_memory_pool().free_all_blocks()
    peers = find_peers(args.gemmul8)
    given = args.sizes, NUM_MODULI, args.repeats
    for name, found in compare(peers, *given, timeout=PEER_SECONDS):
        report.add("gpu-peer", peer=name, **found)


def bench_energy(report: Report, n: int, meter: Meter) -> None:
    """Measure the joules of n x n products, of cuBLAS's int8 products, and of zgemm."""
    A, B = random_pair(n)
    device, planes = CudaDevice(), 8
    x = cp.random.randint(-128, 128, (planes, n, n), cp.int8)
    sums = cp.empty((planes, n, n), cp.int32)
    candidates: dict[str, tuple[Callable[[], Any], int]] = {
        "2m": (lambda: td.gemm(A, B, num_moduli=NUM_MODULI), 4 * NUM_MODULI * n**3),
        "cublas int8": (lambda: device.multiply_int8(x, x, sums), 2 * planes * n**3),
        "cupy.matmul": (lambda: cp.matmul(A, B), 8 * n**3),
    }
    wait = cp.cuda.get_current_stream().synchronize
    for name, (call, operations) in candidates.items():
        found = measure_energy(call, meter, wait, seconds=ENERGY_SECONDS)
        joules = found["joules"]
        per_operation = None if joules is None else 1e12 * joules / operations
        report.add(
            "gpu-energy",
            n=n,
            candidate=name,
            operations=operations,
            picojoules_per_operation=per_operation,
            **found,
        )


def parse_arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sizes",
        default=list(SIZES),
        type=lambda text: [int(n) for n in text.split(",")],
    )
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--part", choices=PARTS, help="one half; both otherwise")
    parser.add_argument("--gemmul8", metavar="PATH", help="GEMMul8's libgemmul8.so")
    parser.add_argument("--output", help="append JSON lines to this file")
    return parser.parse_args(given)


def main() -> None:
    """Run the requested parts."""
    args = parse_arguments()
    try:
        get_engine("cuda")
    except EngineUnavailableError as error:
        sys.exit(f"bench_gpu.py: {error}")
    report = Report(args.output)
    report.common |= {"device": describe_device(), "cupy": cp.__version__}
    run = {"ours": run_ours, "peers": run_peers}
    for part in [args.part] if args.part else PARTS:
        expected = estimate_seconds(part, args.sizes, args.repeats)
        print(f"{part}: some {expected:.0f} seconds on an H100", flush=True)
        start = perf_counter()
        run[part](report, args)
        taken = perf_counter() - start
        report.add("gpu-part", part=part, wall_seconds=taken, expected_seconds=expected)


if __name__ == "__main__":
    main()
