"""Measure products of CuPy arrays, and compare them with those of other libraries.

Parts: ``ours`` (sizes, stages, the host's time, moduli, shapes, stacks, samples) and
``peers`` (speeds and errors beside cuBLAS's emulations of FP64, and GEMMul8's).

    python benchmarks/bench_gpu.py --part ours --sizes 1024,4096 --output FILE
"""

import sys
from argparse import Namespace

import cupy as cp

from benchmarks import gpu_products as products
from benchmarks.device import gpu
from benchmarks.gpu_clock import cublas_version
from benchmarks.gpu_peers import compare, warn_of_age
from benchmarks.harness import Report, run
from twom_dist.errors import EngineUnavailableError
from twom_dist.kernels import get_engine

# Sizes, with ragged ones beside the nearest round ones.
SIZES = (512, 1000, 1024, 2048, 3000, 4095, 4096, 4100, 5000, 8192, 16384)


def ours(report: Report, args: Namespace) -> None:
    gpu(report)
    repeats = args.repeats
    products.bench_ceilings(report)
    for n in args.sizes:
        products.bench_square(report, n, repeats)
    products.bench_host(report)
    products.bench_stacks(report, repeats)
    products.bench_samples(report, repeats)
    products.bench_nonfinite(report, 8192, repeats)
    products.bench_moduli(report, 4096, repeats)
    for n in products.WINOGRAD_SIZES:
        products.bench_winograd(report, n, repeats)
    products.bench_shapes(report, repeats)
    products.bench_dtypes(report, 8192, repeats)


def peers(report: Report, args: Namespace) -> None:
    """Compare speed and errors with other emulations of FP64."""
    gpu(report)
    if warning := warn_of_age(cublas_version()):
        print(warning, file=sys.stderr)
    # The peers are other processes on the same device, and need its memory.
    cp.get_default_memory_pool().free_all_blocks()
    given = args.sizes, products.NUM_MODULI, args.repeats
    for name, fields in compare(*given, timeout=180):  # three take ten minutes
        report.add("gpu-peer", peer=name, **fields)


def main() -> None:
    try:
        get_engine("cuda")
    except EngineUnavailableError as error:
        sys.exit(f"bench_gpu.py: {error}")
    run(__doc__, ours, peers, sizes=[*SIZES], repeats=5)


if __name__ == "__main__":
    main()
