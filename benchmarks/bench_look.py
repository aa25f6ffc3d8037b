"""The cost of the default beside given moduli of the same number: a look at all pairs.

    python benchmarks/bench_look.py --output benchmarks/results/look-cpu-NAME.jsonl

Data: complex and real Gaussian matrices, whose sums of rows suffice, and entries with
the spread of exp(phi N(0, 1)), whose pairs are looked at; and rows of which one large
entry hides all others from leading digits. And two rows of 2^20 entries times two
columns of as many, relative to ``accuracy="normwise"``.
"""

import argparse
from collections.abc import Iterator
from statistics import median

import numpy as np

import twom_dist as td
from benchmarks.harness import Report, interleave

Pair = tuple[np.ndarray, np.ndarray]


def squares(n: int, phis: list[float]) -> Iterator[tuple[str, Pair]]:
    """Yield kinds of two n x n matrices."""
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((2, n, n)) for _ in "ab"]
    a, b = (x[0] + 1j * x[1] for x in parts)
    yield "complex Gaussian", (a, b)
    a, b = (np.ascontiguousarray(x[0]) for x in parts)
    yield "real Gaussian", (a, b)
    for phi in phis:
        a, b = (td.testing.random_matrix(n, n, phi=phi, seed=x) for x in (1, 2))
        yield f"phi = {phi:g}", (a, b)
    a, b = (td.testing.random_matrix(n, n, seed=x) for x in (1, 2))
    which, large = np.arange(n), rng.permutation(n)
    a[which, large] *= 1e8
    b[which[::-1], large] *= 1e8
    yield "one large entry a row", (a, b)


def compare(report: Report, kind: str, pair: Pair, repeats: int, base: str) -> None:
    """Time the default beside the base, in turn."""
    a, b = pair
    found = td.explain(td.gemm, a, b)
    others = {"given": {"num_moduli": found.num_moduli}, "normwise": {}}
    if found.method == "hybrid":
        others["given"]["method"] = "hybrid"
    others["normwise"]["accuracy"] = "normwise"
    candidates = {
        "default": lambda: td.gemm(a, b),
        base: lambda: td.gemm(a, b, **others[base]),
        "numpy": lambda: a @ b,
    }
    seconds = interleave(candidates, repeats)
    pairs = zip(seconds["default"], seconds[base], strict=True)
    report.add(
        "look",
        kind=kind,
        shape=[*a.shape, b.shape[1]],
        num_moduli=found.num_moduli,
        closed_by=found.closed_by,
        rho=found.rho,
        relative_to=base,
        ratio=median(x / y for x, y in pairs),
        seconds=seconds,
    )


def main() -> None:
    """Append a JSON line for each kind and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 2048])
    parser.add_argument("--phi", type=float, nargs="*", default=[1.0, 2.0, 4.0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--long", type=int, default=2**20, help="k of the long rows")
    parser.add_argument("--output", help="append JSON lines to this file")
    args = parser.parse_args()
    report = Report(args.output)
    if args.long:
        a, b = (td.testing.random_matrix(2, args.long, seed=x) for x in (1, 2))
        pair = a, np.ascontiguousarray(b.T)
        compare(report, "long rows", pair, args.repeats, "normwise")
    for n in args.sizes:
        for kind, pair in squares(n, args.phi):
            compare(report, kind, pair, args.repeats, "given")


if __name__ == "__main__":
    main()
