"""Products of CuPy arrays against cuBLAS's: squares, stages, moduli, shapes, stacks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import cupy as cp
import dask
from gpu_ceilings import find_floors
from gpu_clock import (
    measure_peak,
    measure_phases,
    random_matrix,
    random_pair,
    time_calls,
    time_host,
)
from gpu_reference import Reference
from harness import Report, ratios

import twom_dist as td
from twom_dist.kernels.cuda import tuning
from twom_dist.kernels.cuda.device import CudaDevice

NUM_MODULI = 16
# Candidates whose stages are measured.
PHASED = ("2m", "herk", "syrk")
# Candidates whose errors are measured, against the same reference.
EXACT = ("2m", "default", "3m", "cupy.matmul")
# Side of products whose launches may take longer than the device.
LARGEST_GRAPH = 2048
# Number of matrices in a stack, and options of ours: the default looks at each.
STACK = 256
STACKED = {"normwise": {"accuracy": "normwise"}, "default": {}}


def bench_square(
    report: Report, n: int, repeats: int, ceilings: Mapping[str, float]
) -> None:
    """Time n x n products and rank-n updates: stages, peers, memory, error."""
    cp.get_default_memory_pool().free_all_blocks()
    A, B = random_pair(n)
    candidates: dict[str, Callable[[], Any]] = {
        "2m": lambda: td.gemm(A, B, num_moduli=NUM_MODULI),
        "default": lambda: td.gemm(A, B),
        "2m, cuBLAS": by((), lambda: td.gemm(A, B, num_moduli=NUM_MODULI)),
        "3m": lambda: td.gemm(A, B, num_moduli=NUM_MODULI - 1, method="3m"),
        "cupy.matmul": lambda: cp.matmul(A, B),
        "herk": lambda: td.herk(A, num_moduli=NUM_MODULI),
        "syrk": lambda: td.syrk(A, num_moduli=NUM_MODULI),
    }
    if n <= LARGEST_GRAPH:
        candidates["2m, graph"] = replayed(A, B)
    candidates["2m, mma"] = by(("mma",), candidates["2m"])
    seconds = time_calls(candidates, repeats)
    operations = dict.fromkeys(candidates, 8 * n**3)
    operations |= dict.fromkeys(("herk", "syrk"), 4 * n**3)
    phases = {name: measure_phases(candidates[name]) for name in PHASED}
    outside = {
        name: 1 - found["int8 products"] / sum(found.values())
        for name, found in phases.items()
    }
    reference = Reference(A, B)
    report.add(
        "gpu",
        n=n,
        num_moduli=NUM_MODULI,
        tflops={
            name: operations[name] / median(times) / 1e12
            for name, times in seconds.items()
        },
        over_matmul=ratios(seconds, "cupy.matmul"),
        over_gemm=ratios(seconds, "2m"),
        milliseconds=phases,
        floor_milliseconds={
            name: find_floors((n, n, n), NUM_MODULI, ceilings, update=name != "2m")
            for name in PHASED
        },
        share_outside_products=outside,
        int8_tops=64 * n**3 / phases["2m"]["int8 products"] / 1e9,
        peak_bytes=measure_peak(candidates["2m"]),
        error={name: reference.errors(candidates[name]()) for name in EXACT},
        seconds=seconds,
    )


def replayed(A: Any, B: Any) -> Callable[[], Any]:
    """Replay the graph of a product."""
    product = td.Product(A.shape, B.shape, num_moduli=NUM_MODULI, graph=True)
    out = cp.empty((A.shape[0], B.shape[1]), A.dtype)
    return lambda: product(A, B, out=out)


def by(
    products: tuple[tuning.Products, ...], call: Callable[[], Any]
) -> Callable[[], Any]:
    """Choose what multiplies: cuBLAS if no kernel does."""

    def run() -> Any:
        capability = CudaDevice().capability()
        own = tuning.tuning_for(capability)
        tuning.BY_CAPABILITY[capability] = replace(own, products=products)
        try:
            return call()
        finally:
            tuning.BY_CAPABILITY[capability] = own

    return run


def bench_moduli(report: Report, n: int, repeats: int) -> None:
    """Time n x n products with 8 to 18 moduli."""
    A, B = random_pair(n)
    counts = range(8, 19)
    candidates: dict[str, Callable[[], Any]] = {
        str(count): lambda count=count: td.gemm(A, B, num_moduli=count)
        for count in counts
    }
    candidates["cupy.matmul"] = lambda: cp.matmul(A, B)
    seconds = time_calls(candidates, repeats)
    reference = Reference(A, B)
    report.add(
        "gpu-moduli",
        n=n,
        tflops={k: 8 * n**3 / median(t) / 1e12 for k, t in seconds.items()},
        over_matmul=ratios(seconds, "cupy.matmul"),
        error={name: reference.errors(call()) for name, call in candidates.items()},
        seconds=seconds,
    )


def bench_host(report: Report, n: int = 64) -> None:
    """Measure the time that the host needs to launch a product."""
    A = random_matrix(n)
    candidates: dict[str, Callable[[], Any]] = {
        "gemm": lambda: td.gemm(A, A, num_moduli=NUM_MODULI),
        "graph": replayed(A, A),
        "default": lambda: td.gemm(A, A),
        "herk": lambda: td.herk(A, num_moduli=NUM_MODULI),
        "cupy.matmul": lambda: cp.matmul(A, A),
    }
    found = {name: time_host(call) for name, call in candidates.items()}
    report.add("gpu-host", n=n, num_moduli=NUM_MODULI, host=found)


def bench_stacks(report: Report, repeats: int) -> None:
    """Count products a second in stacks, with ours at once and one by one."""
    for n in (64, 256, 512):
        pair = random_matrix(STACK * n, n, seed=1), random_matrix(STACK * n, n, seed=2)
        A, B = (x.reshape(STACK, n, n) for x in pair)
        candidates: dict[str, Callable[[], Any]] = {
            name: lambda a=list(A), b=list(B), own=options: [
                td.gemm(x, y, **own) for x, y in zip(a, b, strict=True)
            ]
            for name, options in STACKED.items()
        }
        candidates |= _whole(td.gemm, A, B)
        candidates["cupy.matmul, one by one"] = lambda a=list(A), b=list(B): [
            cp.matmul(x, y) for x, y in zip(a, b, strict=True)
        ]
        candidates["cupy.matmul"] = lambda a=A, b=B: cp.matmul(a, b)
        _report_stacks(report, "gemm", A, candidates, repeats)
        del pair, A, B, candidates
    X = random_matrix(STACK * 96, 512).astype("complex64").reshape(STACK, 96, 512)
    candidates = {
        name: lambda own=options: [td.herk(x, **own) for x in X]
        for name, options in STACKED.items()
    }
    candidates |= _whole(td.herk, X)
    candidates["cupy.matmul"] = lambda: cp.matmul(X, X.conj().swapaxes(1, 2))
    _report_stacks(report, "herk", X, candidates, repeats)


def _whole(routine: Callable[..., Any], *stacks: Any) -> dict[str, Callable[[], Any]]:
    """Call a routine for whole stacks."""
    return {
        f"stack, {name}": lambda own=options: routine(*stacks, **own)
        for name, options in STACKED.items()
    }


def _report_stacks(
    report: Report,
    routine: str,
    A: Any,
    candidates: Mapping[str, Callable[[], Any]],
    repeats: int,
) -> None:
    seconds = time_calls(candidates, repeats)
    report.add(
        "gpu-stacks",
        routine=routine,
        shape=A.shape,
        dtype=str(A.dtype),
        products_per_second={k: len(A) / median(t) for k, t in seconds.items()},
        over_matmul=ratios(seconds, "cupy.matmul"),
        seconds=seconds,
    )


def bench_nonfinite(report: Report, n: int, repeats: int) -> None:
    """Time the fill of products with a NaN or an Inf in a column, or in every row."""
    A, B = random_pair(n)
    # One a row, far apart.
    rows = cp.arange(n)
    each = rows, 67 * rows % n
    places: dict[str, Any] = {"clean": ((0, 0), 1)}
    for name, value in (("NaN", cp.nan), ("Inf", cp.inf)):
        places[f"{name} in every row"] = each, value
        places[f"{name} in one row"] = (n // 3, n // 2), value
    milliseconds = {}
    for name, (place, value) in places.items():
        x = A.copy()
        x[place] = value
        phases = measure_phases(partial(td.gemm, x, B, num_moduli=NUM_MODULI), repeats)
        milliseconds[name] = phases["fill"]
    report.add("gpu-fill", n=n, num_moduli=NUM_MODULI, milliseconds=milliseconds)


def bench_winograd(report: Report, n: int, repeats: int) -> None:
    """Time n x n products with and without levels of Winograd's algorithm."""
    A, B = random_pair(n)

    def at(levels: int) -> Any:
        with dask.config.set({"twom-dist.winograd-levels": levels}):
            return td.gemm(A, B, num_moduli=NUM_MODULI)

    candidates: dict[str, Callable[[], Any]] = {
        name: lambda levels=levels: at(levels)
        for levels, name in enumerate(("none", "one level", "two levels"))
    }
    expected = at(0)
    same = all(bool((at(levels) == expected).all()) for levels in (1, 2))
    del expected
    seconds = time_calls(candidates, repeats)
    report.add(
        "gpu-winograd",
        n=n,
        num_moduli=NUM_MODULI,
        same_bits=same,
        tflops={k: 8 * n**3 / median(t) / 1e12 for k, t in seconds.items()},
        over_none=ratios(seconds, "none"),
        milliseconds={k: measure_phases(call) for k, call in candidates.items()},
        seconds=seconds,
    )


def bench_shapes(report: Report, repeats: int) -> None:
    """Time tall, wide and long products."""
    for m, n, k in ((65536, 1024, 1024), (1024, 65536, 1024), (2048, 2048, 131072)):
        A, B = random_matrix(m, k, seed=1), random_matrix(k, n, seed=2)
        candidates: dict[str, Callable[[], Any]] = {
            "2m": lambda a=A, b=B: td.gemm(a, b, num_moduli=NUM_MODULI),
            "cupy.matmul": lambda a=A, b=B: cp.matmul(a, b),
        }
        seconds = time_calls(candidates, repeats)
        report.add(
            "gpu-shapes",
            shape=f"{m} x {n} x {k}",
            num_moduli=NUM_MODULI,
            tflops={
                name: 8 * m * n * k / median(t) / 1e12 for name, t in seconds.items()
            },
            over_matmul=ratios(seconds, "cupy.matmul"),
            milliseconds=measure_phases(candidates["2m"]),
            seconds=seconds,
        )
        del A, B


def bench_dtypes(report: Report, n: int, repeats: int) -> None:
    """Time n x n products of the other dtypes, each at its default accuracy."""
    for dtype in ("complex64", "float64", "float32"):
        pair = random_pair(n)
        if not dtype.startswith("complex"):
            pair = tuple(x.real for x in pair)
        A, B = (x.astype(dtype) for x in pair)
        del pair
        candidates: dict[str, Callable[[], Any]] = {
            "gemm": lambda a=A, b=B: td.gemm(a, b),
            "cupy.matmul": lambda a=A, b=B: cp.matmul(a, b),
            "syrk": lambda a=A: td.syrk(a),
        }
        seconds = time_calls(candidates, repeats)
        reference = Reference(A, B)
        whole = (8 if dtype.startswith("complex") else 2) * n**3
        operations = dict.fromkeys(candidates, whole) | {"syrk": whole // 2}
        report.add(
            "gpu-dtypes",
            n=n,
            dtype=dtype,
            tflops={k: operations[k] / median(t) / 1e12 for k, t in seconds.items()},
            over_matmul=ratios(seconds, "cupy.matmul"),
            over_gemm=ratios(seconds, "gemm"),
            error={
                name: reference.errors(candidates[name]())
                for name in ("gemm", "cupy.matmul")
            },
            seconds=seconds,
        )
