"""Measure products of many shapes and dtypes against NumPy's, interleaved.

Parts: ``crossover``: from which size on int8 is faster, at the default accuracy, as
`twom_dist/auto/table.py` tells (int8 wins if a ratio is above 1). ``stacks``:
updates of stacks of small matrices, which have 2^23 entries together. ``exact``:
``X X^H`` of pairs of integers.

    python benchmarks/bench_shapes.py --parts crossover --shapes 1024,4096x4096x256
"""

from argparse import Namespace
from collections.abc import Callable
from math import prod
from statistics import median
from typing import Any

import numpy as np

import twom_dist as td
from benchmarks.harness import Report, interleave, ratios, run
from twom_dist.testing import random_matrix

# m x n x k of gemm, or one number for all; herk takes n and k.
SHAPES = (
    *("512", "768", "1024", "1536", "2048", "3072", "4096"),
    *("4096x4096x256", "2048x2048x512", "256x4096x4096", "512x2048x2048"),
)
# m x k of a matrix in a stack, and the number of entries of all.
STACKS = ("16x64", "32x128", "96x512", "256x256")
ENTRIES = 1 << 23
SAMPLES = "1024x8192", "256x8192", "64x65536", "64x16x8192"
DTYPES = "complex128", "complex64", "float64", "float32"


def bench_crossover(report: Report, args: Namespace) -> None:
    for shape in args.shapes or SHAPES:
        sizes = [int(size) for size in shape.split("x")]
        m, n, k = sizes * 3 if len(sizes) == 1 else sizes
        for dtype in args.dtypes or DTYPES:
            A, B = (random_matrix(*x, dtype=dtype, seed=1) for x in ((m, k), (k, n)))
            time_against_numpy(report, A, B, args.repeats)


def time_against_numpy(report: Report, A: Any, B: Any, repeats: int) -> None:
    (m, k), n = A.shape, B.shape[1]
    products: dict[str, Callable[[], Any]] = {
        "numpy": lambda: np.matmul(A, B),
        "default": lambda: td.gemm(A, B),
    }
    updates: dict[str, Callable[[], Any]] = {
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
            dtype=str(A.dtype),
            shape=[m, n, k],
            size=round(1 / (1 / m + 1 / n + 1 / k), 1),
            over_numpy=ratios(seconds, "numpy"),
            seconds=seconds,
        )


def bench_stacks(report: Report, args: Namespace) -> None:
    for shape in args.shapes or STACKS:
        m, k = map(int, shape.split("x"))
        count = max(1, ENTRIES // (m * k))
        for dtype in args.dtypes or ("complex64", "complex128"):
            each = [random_matrix(m, k, dtype=dtype, seed=i) for i in range(count)]
            X = np.array(each)
            candidates: dict[str, Callable[[], Any]] = {
                "numpy": lambda X=X: X @ X.conj().swapaxes(1, 2),
                "default": lambda X=X: td.herk(X),
                "stack": lambda X=X: td.herk(X, accuracy="normwise"),
                "one by one": lambda X=X: [td.herk(x, accuracy="normwise") for x in X],
            }
            seconds = interleave(candidates, args.repeats)
            report.add(
                "stacks",
                shape=f"{count}x{m}x{k}",
                dtype=dtype,
                num_moduli=td.explain(td.herk, X[0]).num_moduli,
                over_numpy=ratios(seconds, "numpy"),
                seconds=seconds,
            )


def bench_exact(report: Report, args: Namespace) -> None:
    """Time ``X X^H`` of integer pairs, (..., n, k), counted as 8 n^2 k operations."""
    for shape in args.shapes or SAMPLES:
        sizes = [int(size) for size in shape.split("x")]
        for dtype in args.dtypes or ("int8", "int16"):
            # The least of int8 would exceed int32 in the longest sums.
            largest, rng = np.iinfo(dtype).max, np.random.default_rng(0)
            given = {"dtype": dtype, "endpoint": True}
            pairs = rng.integers(-largest, largest, (*sizes, 2), **given)
            time_exact(report, pairs, args.repeats)


def time_exact(report: Report, pairs: np.ndarray, repeats: int) -> None:
    def convert() -> Any:
        return pairs.astype("f4").view("c8")[..., 0]

    def multiply(x: Any) -> Any:
        return x @ x.conj().swapaxes(-1, -2)

    single = convert()
    candidates: dict[str, Callable[[], Any]] = {
        "numpy complex64": lambda: multiply(single),
        "numpy complex64, converted": lambda: multiply(convert()),
        "exact": lambda: td.integers.herk(pairs, pairs=True),
    }
    wide = multiply(single.astype("c16"))
    equal = np.array_equal(candidates["exact"](), wide)
    seconds = interleave(candidates, repeats)
    (*stack, n, k), one = single.shape, pairs.reshape(-1, *pairs.shape[-3:])[0]
    operations = 8 * prod(stack) * n * n * k
    report.add(
        "exact",
        shape="x".join(map(str, single.shape)),
        dtype=str(pairs.dtype),
        num_moduli=td.explain(td.integers.herk, one, pairs=True).num_moduli,
        equal=equal,
        over_complex64=ratios(seconds, "numpy complex64"),
        gflops={x: operations / median(y) / 1e9 for x, y in seconds.items()},
        seconds=seconds,
    )


if __name__ == "__main__":
    parts = bench_crossover, bench_stacks, bench_exact
    run(__doc__, *parts, shapes=[], dtypes=[], repeats=5)
