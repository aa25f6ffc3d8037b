"""Measurements for the figures: errors, speeds, updates and dask, one line each."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import twom_dist as td
from benchmarks.device import Device
from benchmarks.gpu_peers import compare, warn_of_age
from benchmarks.harness import (
    Report,
    draw_lazily,
    interleave,
    start_client,
    wall_seconds,
)
from benchmarks.reference import Reference
from benchmarks.sampler import Sampler
from twom_dist.moduli import available_moduli
from twom_dist.testing import random_matrix

METHODS = ("2m", "3m", "hybrid", "real")
# Numbers of moduli as exact as double precision: their product has some 117 bits.
AS_DOUBLE = {"2m": 16, "3m": 15, "hybrid": 16, "real": 15}
COUNTS = (6, 8, 10, 12, 14, 15, 16, 18, 20)
PHIS = (0.0, 1.0, 4.0)
ROUNDS = 5
# Products of real matrices have no method.
NAMED = {x: {} if x == "real" else {"method": x} for x in METHODS}
Products = Mapping[tuple[str, int], Callable[[], Any]]


def measure_errors(report: Report, n: int) -> None:
    """Measure errors by the number of moduli, relative to ``(|A||B|)_ij``."""
    for phi in PHIS:
        a, b = (random_matrix(n, n, phi=phi, seed=seed) for seed in (1, 2))
        for kind, x, y in (("complex", a, b), ("real", a.real.copy(), b.real.copy())):
            reference = Reference(x, y)
            methods = ("real",) if kind == "real" else METHODS[:-1]
            products: Iterator[tuple[str, int, Any]] = (
                (method, count, td.gemm(x, y, num_moduli=count, **NAMED[method]))
                for method in methods
                for count in range(6, 25)
                if count <= len(available_moduli(method))
            )
            for method, count, c in (("native", 0, x @ y), *products):
                error = reference.componentwise(c)
                figures = {"kind": kind, "method": method, "num_moduli": count}
                report.add("figure-errors", n=n, phi=phi, **figures, error=error)


def measure_speeds(
    report: Report, device: Device, sizes: list[int], sweep: int, seconds: float
) -> list[int]:
    """Measure speeds by size, method and moduli; return the sizes that time allowed.

    At the size `sweep` every method is timed with every number of moduli.
    """
    end = time.monotonic() + seconds
    for done, n in enumerate(sizes, 1):
        drawn = ((1.0, 1), (1.0, 2), (0.0, 1), (0.0, 2))
        made = [random_matrix(n, n, phi=phi, seed=seed) for phi, seed in drawn]
        matrices = [device.send(x) for x in made]
        products = _products(*matrices, n == sweep)
        start = time.monotonic()
        _measure_size(report, device, n, products)
        each = (time.monotonic() - start) / len(products)
        if time.monotonic() + 8 * each * len(_products(*matrices, False)) > end:
            return sizes[:done]
    return sizes


def _products(a: Any, b: Any, uniform_a: Any, uniform_b: Any, sweep: bool) -> Products:
    """Return the products to time: all moduli of "2m", or of all methods in a sweep."""
    x, y = a.real.copy(), b.real.copy()
    products: dict[tuple[str, int], Callable[[], Any]] = {
        ("native", 0): lambda: a @ b,
        ("native real", 0): lambda: x @ y,
        ("native herk", 0): lambda: a @ a.conj().T,
        ("default", 0): lambda: td.gemm(a, b),
        # Sums of rows suffice to choose its moduli: no magnitudes are multiplied.
        ("default, phi = 0", 0): lambda: td.gemm(uniform_a, uniform_b),
        ("herk", 16): lambda: td.herk(a, num_moduli=16),
        ("syrk", 16): lambda: td.syrk(a, num_moduli=16),
    }
    for method in METHODS:
        left, right = (x, y) if method == "real" else (a, b)
        for count in COUNTS if sweep or method == "2m" else (AS_DOUBLE[method],):
            given = {"num_moduli": count, **NAMED[method]}
            products[method, count] = partial(td.gemm, left, right, **given)
    return products


def _measure_size(report: Report, device: Device, n: int, products: Products) -> None:
    calls = {f"{method} {count}": call for (method, count), call in products.items()}
    # Small products on a GPU guess the moduli of the last one of their shape.
    other = "default, phi = 0 0"
    apart = {other: calls.pop(other)}
    seconds = interleave(calls, ROUNDS, device.clock)
    seconds |= interleave(apart, ROUNDS, device.clock)
    for method, count in products:
        times = seconds[f"{method} {count}"]
        given = {"method": method, "num_moduli": count, "on": device.name}
        report.add("figure-speeds", n=n, **given, seconds=times)


def measure_peers(report: Report, sizes: list[int]) -> None:
    """Measure cuBLAS's own emulation of doubles, which its environment switches on."""
    import cupy

    from benchmarks.gpu_clock import cublas_version

    if warning := warn_of_age(cublas_version()):
        print(warning, file=sys.stderr)
    cupy.get_default_memory_pool().free_all_blocks()  # peers need the memory, too
    moduli = AS_DOUBLE["2m"]
    for name, found in compare(sizes, moduli, ROUNDS, timeout=60):
        given = {"method": name, "num_moduli": 0, "on": "gpu"}
        seconds = found["seconds"]["peer"]
        report.add("figure-speeds", n=found["n"], **given, seconds=seconds)


def measure_dask(report: Report, tile: int, worker_counts: list[int]) -> None:
    """Measure time, traffic and memory of products of 8 x 8 tiles, with their plans."""
    import dask.array as da
    from distributed import wait

    n = 8 * tile
    for workers in worker_counts:
        with start_client(workers) as client:
            a, b = client.persist([draw_lazily((n, n), tile, x) for x in (1, 2)])
            wait([a, b])
            products: Mapping[str, Callable[[], Any]] = {
                "da.matmul": partial(da.matmul, a, b),
                "gemm": partial(td.gemm, a, b, num_moduli=16),
                "herk": partial(td.herk, a, num_moduli=16),
            }
            for name, make in products.items():

                def call(make: Callable[[], Any] = make, to: Any = client) -> None:
                    wait(to.persist(make()))

                call()  # loads the kernels
                with Sampler(client, 0.005) as sampler:
                    seconds = wall_seconds(call)
                found = {
                    "bytes_moved": sampler.moved_bytes,
                    "peak_managed_bytes": max(sampler.managed_bytes.values()),
                }
                if name != "da.matmul":
                    plan = td.plan(make.func, *make.args, **make.keywords)
                    found["planned_bytes"] = plan.bytes_moved
                    found["planned_peak"] = plan.peak_worker_bytes
                given = {"workers": workers, "product": name, "n": n, "tile": tile}
                report.add("figure-dask", **given, **found, seconds=[seconds])
