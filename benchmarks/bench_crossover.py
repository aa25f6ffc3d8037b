"""Measure from which size on products through int8 are faster than NumPy's.

python benchmarks/bench_crossover.py --dtypes complex128 --shapes 1024,4096x4096x256

Products have the default accuracy. The results are for
`twom_dist/crossover/table.py`; int8 wins if a ratio is above 1.
"""

import argparse
from typing import Any

import numpy as np
from harness import Report, interleave, ratios

import twom_dist as td
from twom_dist.testing import random_matrix

DTYPES = "complex128,complex64,float64,float32"
# m x n x k of gemm; herk takes n and k.
SHAPES = (
    "512,768,1024,1536,2048,3072,4096,"
    "4096x4096x256,2048x2048x512,256x4096x4096,512x2048x2048"
)


def bench(report: Report, m: int, n: int, k: int, dtype: str, repeats: int) -> None:
    """Time a product, and an update if the product is square."""
    A, B = (random_matrix(*x, dtype=dtype, seed=1) for x in ((m, k), (k, n)))
    products: dict[str, Any] = {
        "numpy": lambda: np.matmul(A, B),
        "default": lambda: td.gemm(A, B),
    }
    updates: dict[str, Any] = {
        "numpy": lambda: np.matmul(A, A.conj().T),
        "blas": lambda: td.herk(A, method="blas"),
        "default": lambda: td.herk(A),
    }
    routines = {"gemm": products} | ({"herk": updates} if m == n else {})
    for routine, candidates in routines.items():
        seconds = interleave(candidates, repeats)
        report.add(
            "crossover",
            routine=routine,
            dtype=dtype,
            shape=[m, n, k],
            size=round(1 / (1 / m + 1 / n + 1 / k), 1),
            over_numpy=ratios(seconds, "numpy"),
            seconds=seconds,
        )


def main() -> None:
    """Run the requested shapes and dtypes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--dtypes", default=DTYPES)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", help="append JSON lines to this file")
    args = parser.parse_args()
    report = Report(args.output)
    for shape in args.shapes.split(","):
        sizes = [int(size) for size in shape.split("x")]
        m, n, k = sizes * 3 if len(sizes) == 1 else sizes
        for dtype in args.dtypes.split(","):
            bench(report, m, n, k, dtype, args.repeats)


if __name__ == "__main__":
    main()
