"""Measure rank-k updates against gemm and against NumPy and SciPy, interleaved.

python benchmarks/bench_rank_k.py --sizes 2048,4096
"""

import argparse
from typing import Any

from harness import Report, interleave, ratios
from scipy.linalg import blas

import twom_dist as td
from twom_dist.testing import random_matrix


def bench(report: Report, n: int, repeats: int) -> None:
    """Time n x n updates of rank n."""
    A = random_matrix(n, n, seed=1)
    F = A.T  # SciPy's BLAS takes Fortran order: no copy is timed.
    R = A.real.copy()
    complex_ones: dict[str, Any] = {
        "gemm": lambda: td.gemm(A, A, op_b="C", num_moduli=16),
        "herk": lambda: td.herk(A, num_moduli=16),
        "numpy A @ A.conj().T": lambda: A @ A.conj().T,
        "scipy zherk": lambda: blas.zherk(1, F, trans=2),
    }
    real_ones: dict[str, Any] = {
        "dgemm": lambda: td.dgemm(R, R, op_b="T", num_moduli=15),
        "dsyrk": lambda: td.dsyrk(R, num_moduli=15),
    }
    for name, candidates in (("herk", complex_ones), ("dsyrk", real_ones)):
        seconds = interleave(candidates, repeats)
        speed = {
            f"{name} over {other}": ratios(seconds, other)[name]
            for other in candidates
            if other != name
        }
        report.add("rank-k", n=n, routine=name, speed=speed, seconds=seconds)


def main() -> None:
    """Run the requested sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="2048,4096")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", help="append JSON lines to this file")
    args = parser.parse_args()
    report = Report(args.output)
    for n in map(int, args.sizes.split(",")):
        bench(report, n, args.repeats)


if __name__ == "__main__":
    main()
