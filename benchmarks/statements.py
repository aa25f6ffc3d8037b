"""The statements of the paper, each compared with a measurement or a count.

P. Caday, "The 2M Multiplication Algorithm for Complex Matrices". The verdict on each is
"pass" or "differs". Those on speeds are compared with the speeds that figures.py has
measured, so they need its lines.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import twom_dist as td
from benchmarks.reference import Reference
from twom_dist.moduli import available_moduli, residue_system
from twom_dist.testing import random_matrix

PASS, DIFFERS = "pass", "differs"


class Statement(NamedTuple):
    """A statement, the finding, and whether both agree."""

    statement: str
    found: str
    verdict: str


def _judge(statement: str, found: str, holds: bool) -> Statement:
    return Statement(statement, found, PASS if holds else DIFFERS)


def check_all() -> list[Statement]:
    return [*count_products(), *list_bits(), *measure_errors()]


def list_statements(lines: Iterable[Mapping[str, Any]]) -> list[Statement]:
    """List the statements in the lines of figures.py, and those on its speeds."""
    lines = list(lines)
    recorded = [x for x in lines if x["benchmark"] == "statement"]
    speeds = [x for x in lines if x["benchmark"] == "figure-speeds"]
    found = [Statement(*(x[name] for name in Statement._fields)) for x in recorded]
    return [*found, *(compare_speeds(speeds) if speeds else [])]


def count_products() -> list[Statement]:
    """Count the int8 products of plans."""

    def count(routine: Any, *shapes: tuple[int, int], **given: Any) -> int:
        return int(td.plan(routine, *shapes, chunks=64, **given).num_int8_gemms)

    def least(method: str) -> int:
        """Return the fewest moduli whose product has at least 117 bits."""
        counts = range(1, len(available_moduli(method)) + 1)
        bits = (residue_system(method, n).modulus_bits for n in counts)
        return next(n for n, x in zip(counts, bits, strict=True) if x >= 117)

    one, tiles = (64, 64), (2048, 2048)
    by_2m = count(td.gemm, one, one, num_moduli=16)
    by_3m = count(td.gemm, one, one, num_moduli=15, method="3m")
    gemm = count(td.gemm, tiles, tiles, num_moduli=16)
    herk = count(td.herk, tiles, num_moduli=16)
    counts = {x: least(x) for x in ("2m", "3m", "real")}
    told = ", ".join(f"{method} {count}" for method, count in counts.items())
    halves = f"{herk / gemm:.3f} of them, in 32 x 32 tiles"
    doubles = "2M takes 16 moduli for double precision, 3M and real products 15"
    two = "2M takes 2 real products a modulus"
    return [
        _judge(two, f"{by_2m} for 16 moduli", by_2m == 32),
        _judge("3M takes 3", f"{by_3m} for 15 moduli", by_3m == 45),
        _judge(doubles, told, counts == {"2m": 16, "3m": 15, "real": 15}),
        _judge("HERK takes half the products of GEMM", halves, herk / gemm < 0.52),
    ]


def list_bits() -> list[Statement]:
    """Compare the products of moduli with the paper's."""
    found = []
    for what, method, count, said in (
        ("16 moduli of 2M have 117 bits", "2m", 16, 117.0),
        ("all moduli of 2M have 152 bits", "2m", 0, 152.0),
        ("all real moduli have 342 bits", "real", 0, 342.0),
    ):
        number = count or len(available_moduli(method))
        bits = residue_system(method, number).modulus_bits
        found.append(_judge(what, f"{bits:.2f}, {number} moduli", abs(bits - said) < 1))
    return found


def measure_errors() -> list[Statement]:
    """Measure errors against products of twice the digits."""

    def errors(a: np.ndarray, b: np.ndarray, *products: np.ndarray) -> list[float]:
        reference = Reference(a, b)
        return [reference.componentwise(c) for c in products]

    a, b = (random_matrix(256, 256, phi=0.5, seed=seed) for seed in (1, 2))
    native, own = errors(a, b, a @ b, td.gemm(a, b, num_moduli=16))
    # Scaling [A, B] and [B, A] scales A and B by a common factor.
    b = b * 2.0**-40
    left, right = np.hstack([a, b]), np.hstack([b, a])
    given = {"op_b": "C", "num_moduli": 16, "equilibrate": False}
    together = td.gemm(left, right, **given)
    updated = td.her2k(a, b, num_moduli=16)
    common, apart = errors(left, right.conj().T, together, updated)
    return [
        _judge(
            "16 moduli are about 10 times as accurate as the native product",
            f"{native / own:.1f} times: {own:.1e} and {native:.1e} of (|A||B|)_ij, "
            "256 x 256, phi = 0.5",
            native / own > 5,
        ),
        _judge(
            "HER2K by a common scaling costs as much, and loses accuracy where A and B "
            "differ in scale",
            f"B 2^-40: {common:.1e}; with scalings of their own, as here, {apart:.1e}",
            common > 1e6 * apart,
        ),
    ]


def compare_speeds(lines: Iterable[Mapping[str, Any]]) -> list[Statement]:
    lines = list(lines)
    n = max(x["n"] for x in lines)
    largest = [x for x in lines if x["n"] == n]
    seconds = {(x["method"], x["num_moduli"]): median(x["seconds"]) for x in largest}
    by_2m = seconds["2m", 16]
    real, herk = by_2m / seconds["real", 15], by_2m / seconds["herk", 16]
    by_3m = seconds["3m", 15] / by_2m
    two = "2M costs little more than two real products"
    three = "2M is up to 45 / 32 times as fast as 3M"
    half = "HERK is up to twice as fast as GEMM"
    return [
        _judge(two, f"{real:.2f} times a real product", real < 2.6),
        _judge(three, f"{by_3m:.2f} times", by_3m > 1.1),
        _judge(half, f"{herk:.2f} times", herk > 1.3),
    ]


def tabulate(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Make a table of Markdown."""
    cells = ([cell.replace("|", r"\|") for cell in row] for row in (heads, *rows))
    head, *lines = (f"| {' | '.join(row)} |" for row in cells)
    return "\n".join([head, "|---" * len(heads) + "|", *lines])


if __name__ == "__main__":
    print(tabulate(Statement._fields, check_all()))
