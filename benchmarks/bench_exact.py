"""Measure exact products of integer pairs against NumPy's complex ones, interleaved.

python benchmarks/bench_exact.py --shapes 1024x4096
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Report, interleave, ratios

import twom_dist as td


def bench(report: Report, n: int, k: int, dtype: str, repeats: int) -> None:
    """Time ``X X^H`` of n x k pairs: conversions are part of every candidate."""
    info = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    pairs = rng.integers(info.min, info.max, (n, k, 2), dtype=dtype, endpoint=True)

    def convert(real: str, whole: str) -> Any:
        return pairs.astype(real).view(whole)[..., 0]

    def multiply(real: str, whole: str) -> Any:
        x = convert(real, whole)
        return x @ x.conj().T

    candidates: dict[str, Callable[[], Any]] = {
        "numpy complex64": lambda: multiply("f4", "c8"),
        "numpy complex128": lambda: multiply("f8", "c16"),
        "exact": lambda: td.integers.herk(pairs, pairs=True),
        "16 moduli": lambda: td.herk(convert("f8", "c16"), num_moduli=16),
    }
    expected, found = multiply("f8", "c16"), td.integers.herk(pairs, pairs=True)
    seconds = interleave(candidates, repeats)
    report.add(
        "exact",
        shape=f"{n}x{k}",
        dtype=dtype,
        num_moduli=td.plan(
            td.integers.herk, (n, k, 2), dtype=dtype, pairs=True
        ).num_moduli,
        equal=bool((expected == found).all()),
        over_complex64=ratios(seconds, "numpy complex64"),
        over_complex128=ratios(seconds, "numpy complex128"),
        seconds=seconds,
    )


def main() -> None:
    """Run the requested shapes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="1024x4096")
    parser.add_argument("--dtypes", default="int8,int16")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--output", help="append JSON lines to this file")
    args = parser.parse_args()
    report = Report(args.output)
    for shape in args.shapes.split(","):
        n, k = map(int, shape.split("x"))
        for dtype in args.dtypes.split(","):
            bench(report, n, k, dtype, args.repeats)


if __name__ == "__main__":
    main()
