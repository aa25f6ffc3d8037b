"""Measure errors against the number of moduli, for several kinds of data and methods.

Errors are the largest of all entries, relative to ``(|A||B|)_ij`` ("componentwise") or
to ``||a_i|| ||b_j||`` ("normwise"), in units of u = 2^-53, against a product of twice
the digits. They are those of NumPy's product, of our default, with the number of moduli
that the data take (N), and of given numbers of moduli, plain and equilibrated (e), for
every method.

    python benchmarks/bench_accuracy.py --size 256
"""

from argparse import Namespace
from collections.abc import Callable, Iterator

import numpy as np

import twom_dist as td
from benchmarks.harness import Report, run
from benchmarks.reference import Reference
from twom_dist.moduli import METHODS, available_moduli
from twom_dist.testing import random_matrix

U = 2.0**-53
COUNTS = range(10, 25)
SHOWN = ("NumPy", "default", "2m 14", "2m 15", "2m 16", "2m 18", "2m 20", "2m 16 e")
Pair = tuple[np.ndarray, np.ndarray]


def spread(phi: float) -> Callable[[int], Pair]:
    """Entries (U - 1/2) exp(phi N(0,1))."""
    return lambda n: tuple(random_matrix(n, n, phi=phi, seed=x) for x in (1, 2))


def scaled_along_k(decades: float) -> Callable[[int], Pair]:
    """Columns of A times D, and rows of B divided by D, which spans some decades."""

    def make(n: int) -> Pair:
        a, b = spread(1)(n)
        d = 10.0 ** np.random.default_rng(3).uniform(-decades, decades, n)
        return a * d, b / d[:, np.newaxis]

    return make


def graded(n: int) -> Pair:
    """Both decay over 12 decades along rows and columns."""
    a, b = spread(1)(n)
    grade = 10.0 ** -(12 * np.add.outer(np.arange(n), np.arange(n)) / (2 * n))
    return a * grade, b * grade


def banded(n: int) -> Pair:
    """Four diagonals on either side."""
    near = abs(np.subtract.outer(np.arange(n), np.arange(n))) <= 4
    a, b = spread(1)(n)
    return a * near, b * near


def sparse(n: int) -> Pair:
    """One entry in twenty."""
    rng = np.random.default_rng(4)
    a, b = spread(1)(n)
    return a * (rng.random((n, n)) < 0.05), b * (rng.random((n, n)) < 0.05)


def mixed_units(n: int) -> Pair:
    """Columns of A in three units, rows of B in theirs."""
    unit = 1e8 ** (np.arange(n) % 3 - 1.0)
    a, b = spread(1)(n)
    return a * unit, b / unit[:, np.newaxis]


def cancelling(n: int) -> Pair:
    """Halves of the sums that cancel but for 1e-8."""
    a, b = random_matrix(n, n // 2, seed=5), random_matrix(n // 2, n, seed=6)
    return np.hstack([a, a]), np.vstack([b, -b * (1 + 1e-8)])


KINDS: dict[str, Callable[[int], Pair]] = {
    **{f"phi = {phi:g}": spread(phi) for phi in (0, 0.5, 1, 2, 4)},
    **{f"D = 10^+-{d}": scaled_along_k(d) for d in (1, 2, 4, 6, 100)},
    **{"graded": graded, "banded": banded, "sparse": sparse},
    **{"mixed units": mixed_units, "cancelling": cancelling},
}


def products(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Multiply in every way; yield each product with its name."""
    yield "NumPy", a @ b
    yield "default", td.gemm(a, b)
    for method in METHODS:
        most = len(available_moduli(method))
        for count in (n for n in COUNTS if n <= most):
            options = {"method": method, "num_moduli": count}
            yield f"{method} {count}", td.gemm(a, b, **options)
            if method == "2m":
                yield f"2m {count} e", td.gemm(a, b, **options, equilibrate=True)


def measure(a: np.ndarray, b: np.ndarray) -> dict[str, dict[str, float]]:
    reference = Reference(a, b)
    norms = np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=0))
    found = {}
    for name, c in products(a, b):
        errors = {
            "componentwise": reference.componentwise(c),
            "normwise": (reference.differences(c) / (norms + (norms == 0))).max(),
        }
        found[name] = {scale: float(f"{x / U:.4g}") for scale, x in errors.items()}
    return found


def bench_accuracy(report: Report, args: Namespace) -> None:
    for kind, make in KINDS.items():
        a, b = make(args.size)
        taken = td.explain(td.gemm, a, b)
        errors = measure(a, b)
        told = {"num_moduli": taken.num_moduli, "rho": taken.rho}
        report.add("accuracy", kind=kind, n=args.size, errors=errors, **told)
        for scale in ("componentwise", "normwise"):
            shown = {name: errors[name][scale] for name in SHOWN}
            print(f"    {scale}:", *(f"{name} {x:.2g}," for name, x in shown.items()))


if __name__ == "__main__":
    run(__doc__, bench_accuracy, size=256)
