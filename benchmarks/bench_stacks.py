"""Measure stacks of small matrices against NumPy's batched products, interleaved.

python benchmarks/bench_stacks.py --shapes 96x512,32x128
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Report, interleave, ratios

import twom_dist as td
from twom_dist.testing import random_matrix

DTYPES = ("complex64", "complex128")
# Number of entries of all matrices together.
ENTRIES = 1 << 23


def bench(report: Report, m: int, k: int, dtype: str, repeats: int) -> None:
    """Time ``X X^H`` of a stack of m x k matrices with a fixed number of entries."""
    count = max(1, ENTRIES // (m * k))
    X = np.array([random_matrix(m, k, dtype=dtype, seed=i) for i in range(count)])
    candidates: dict[str, Callable[[], Any]] = {
        "numpy": lambda: X @ X.conj().swapaxes(1, 2),
        "default": lambda: td.herk(X),
        "stack": lambda: td.herk(X, accuracy="normwise"),
        "one by one": lambda: [td.herk(x, accuracy="normwise") for x in X],
    }
    seconds = interleave(candidates, repeats)
    report.add(
        "stacks",
        shape=f"{count}x{m}x{k}",
        dtype=dtype,
        num_moduli=td.explain(td.herk, X[0]).num_moduli,
        over_numpy=ratios(seconds, "numpy"),
        seconds=seconds,
    )


def main() -> None:
    """Run the requested shapes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="16x64,32x128,96x512,256x256")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", help="append JSON lines to this file")
    args = parser.parse_args()
    report = Report(args.output)
    for shape in args.shapes.split(","):
        m, k = map(int, shape.split("x"))
        for dtype in DTYPES:
            bench(report, m, k, dtype, args.repeats)


if __name__ == "__main__":
    main()
