"""Speeds in the lines of the figures, and the names of what was measured."""

from collections.abc import Iterable
from statistics import median
from typing import Any

Lines = list[dict[str, Any]]
# By method, number of moduli and size.
Rates = dict[tuple[str, int, int], float]

# What multiplies natively.
_LIBRARIES = {"cpu": "NumPy", "gpu": "CuPy"}


def find_rates(lines: Iterable[dict[str, Any]]) -> Rates:
    """Return GFLOP/s: of 8 n^3 operations, or 2 n^3 of real products."""
    rates = {}
    for line in lines:
        method, count, n = line["method"], line["num_moduli"], line["n"]
        each = 2 if method in ("real", "native real") else 8
        rates[method, count, n] = each * n**3 / median(line["seconds"]) / 1e9
    return rates


def choose_unit(rates: Rates) -> tuple[Rates, str]:
    """Count in TFLOP/s where speeds are so high."""
    if max(rates.values()) < 10_000:
        return rates, "GFLOP/s"
    return {key: rate / 1e3 for key, rate in rates.items()}, "TFLOP/s"


def list_sizes(rates: Rates) -> list[int]:
    """List the sizes, from small to large."""
    return sorted({n for _, _, n in rates})


def name_product(method: str, line: dict[str, Any]) -> str:
    """Name the library whose product is the native one."""
    method = method.replace("native herk", "native A A^H")
    return method.replace("native", _LIBRARIES[line["on"]])


def name_device(line: dict[str, Any], benchmark: str) -> str:
    """Name what was measured: the GPU of speeds, if there is one, or the host."""
    device: str = line["device"]
    return device.split("; ")[0 if benchmark == "figure-speeds" else -1]
