"""The cost of the default beside given moduli of the same number: a look at all pairs.

Data: complex and real Gaussian matrices, whose sums of rows suffice, and entries with
the spread of exp(phi N(0, 1)), whose pairs are looked at; and rows of which one large
entry hides all others from leading digits. And two rows of 2^20 entries times two
columns of as many, relative to ``accuracy="normwise"``. ``--gpu`` takes CuPy arrays.

    python benchmarks/bench_look.py --sizes 1024,2048 --output FILE
"""

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from statistics import median

import numpy as np

import twom_dist as td
from benchmarks.bench_accuracy import Pair, spread
from benchmarks.device import Device, cpu, gpu
from benchmarks.harness import Report, interleave, run


def draw_kinds(n: int, phis: list[float]) -> Iterator[tuple[str, Pair]]:
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((2, n, n)) for _ in "ab"]
    a, b = (x[0] + 1j * x[1] for x in parts)
    yield "complex Gaussian", (a, b)
    a, b = (np.ascontiguousarray(x[0]) for x in parts)
    yield "real Gaussian", (a, b)
    for phi in phis:
        yield f"phi = {phi:g}", spread(phi)(n)
    a, b = spread(1)(n)
    which, large = np.arange(n), rng.permutation(n)
    a[which, large] *= 1e8
    b[which[::-1], large] *= 1e8
    yield "one large entry a row", (a, b)


def compare(report: Report, place: Device, kind: str, pair: Pair, repeats: int) -> None:
    """Time the default beside its base, in turn."""
    a, b = map(place.send, pair)
    found = td.explain(td.gemm, a, b)
    base, options = "given", {"num_moduli": found.num_moduli}
    if found.method == "hybrid":
        options["method"] = "hybrid"
    if kind == "long rows":
        base, options = "normwise", {"accuracy": "normwise"}
    candidates = {
        "default": partial(td.gemm, a, b),
        base: partial(td.gemm, a, b, **options),
        "numpy" if place.name == "cpu" else "cupy.matmul": lambda: a @ b,
    }
    seconds = interleave(candidates, repeats, place.clock)
    pairs = zip(seconds["default"], seconds[base], strict=True)
    report.add(
        "look",
        kind=kind,
        shape=[*a.shape, b.shape[1]],
        num_moduli=found.num_moduli,
        decided_by=found.decided_by,
        rho=found.rho,
        relative_to=base,
        ratio=median(x / y for x, y in pairs),
        seconds=seconds,
    )


def bench_look(report: Report, args: Namespace) -> None:
    device = gpu(report) if args.gpu else cpu()
    if args.long:
        a, b = (td.testing.random_matrix(2, args.long, seed=x) for x in (1, 2))
        pair = a, np.ascontiguousarray(b.T)
        compare(report, device, "long rows", pair, args.repeats)
    for n in args.sizes:
        for kind, pair in draw_kinds(n, args.phi):
            compare(report, device, kind, pair, args.repeats)


if __name__ == "__main__":
    options = {"sizes": [1024, 2048], "phi": [1.0, 2.0, 4.0], "long": 2**20}
    run(__doc__, bench_look, repeats=7, gpu=False, **options)
