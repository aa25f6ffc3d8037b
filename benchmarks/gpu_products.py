"""Products of CuPy arrays against cuBLAS's: squares, stages, moduli, shapes, stacks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from math import inf, prod
from statistics import median
from typing import Any
from unittest import mock

import cupy as cp
import dask

import twom_dist as td
from benchmarks.gpu_clock import (
    measure_peak,
    measure_phases,
    random_matrix,
    random_pair,
    time_calls,
    time_host,
)
from benchmarks.harness import Calls, Report, ratios, tera
from benchmarks.reference import Reference
from twom_dist.kernels.cuda import tuning
from twom_dist.kernels.cuda.device import CudaDevice

NUM_MODULI = 16
# Candidates whose stages, and whose errors, are measured.
PHASED = ("2m", "herk", "syrk")
EXACT = ("2m", "default", "3m", "cupy.matmul")
# Number of matrices in a stack, and options of ours: the default looks at each.
STACK = 256
STACKED = {"normwise": {"accuracy": "normwise"}, "default": {}}
# Side and number of planes of cuBLAS's int8 products.
INT8_SHAPES = ((1024, 32), (2048, 32), (4096, 1), (4096, 8), (8192, 1), (8192, 4))
WINOGRAD_SIZES = (8192, 12288, 16384)

gemm = partial(td.gemm, num_moduli=NUM_MODULI)


def measure(
    candidates: Calls,
    repeats: int,
    operations: float | Mapping[str, float],
    **over: str,
) -> dict[str, Any]:
    """Time candidates in turns; return the fields of a result that tell of speed.

    `over`: names of fields of ratios, each with the candidate that is 1 there.
    """
    seconds = time_calls(candidates, repeats)
    found = {field: ratios(seconds, baseline) for field, baseline in over.items()}
    return {"tflops": tera(seconds, operations), **found, "seconds": seconds}


def errors(A: Any, B: Any, candidates: Calls, names: Iterable[str]) -> dict[str, Any]:
    reference = Reference(A, B)
    return {name: reference.errors(candidates[name]()) for name in names}


def bench_ceilings(report: Report) -> None:
    """Measure bytes a second of a copy, and int8 operations of cuBLAS."""
    device, tops = CudaDevice(), {}
    for n, batch in INT8_SHAPES:
        planes = cp.random.randint(-128, 128, (batch, n, n), cp.int8)
        sums = cp.empty((batch, n, n), cp.int32)
        call = partial(device.multiply, planes, planes, sums)
        seconds = median(time_calls({"cublas": call}, 5)["cublas"])
        tops[f"{batch} x {n}"] = 2 * batch * n**3 / seconds / 1e12
        del planes, sums, call
    x, y = cp.ones(1 << 29), cp.empty(1 << 29)
    seconds = median(time_calls({"copy": lambda: cp.copyto(y, x)}, 5)["copy"])
    # Read and written.
    terabytes = 2 * x.nbytes / seconds / 1e12
    report.add("gpu-ceilings", terabytes=terabytes, int8_tops={"cublas": tops})


def bench_square(report: Report, n: int, repeats: int) -> None:
    """Time n x n products and rank-n updates: stages, peers, memory, error."""
    cp.get_default_memory_pool().free_all_blocks()
    A, B = random_pair(n)
    candidates: dict[str, Callable[[], Any]] = {
        "2m": partial(gemm, A, B),
        "default": partial(td.gemm, A, B),
        "2m, cuBLAS": by((), partial(gemm, A, B)),
        "2m, mma": by(("mma",), partial(gemm, A, B)),
        "2m, mma256": by(("mma256",), partial(gemm, A, B)),
        "3m": partial(td.gemm, A, B, num_moduli=NUM_MODULI - 1, method="3m"),
        "cupy.matmul": partial(cp.matmul, A, B),
        "herk": partial(td.herk, A, num_moduli=NUM_MODULI),
        "syrk": partial(td.syrk, A, num_moduli=NUM_MODULI),
    }
    operations = dict.fromkeys(candidates, 8 * n**3)
    operations |= dict.fromkeys(("herk", "syrk"), 4 * n**3)
    over = {"over_matmul": "cupy.matmul", "over_gemm": "2m"}
    speeds = measure(candidates, repeats, operations, **over)
    phases = {name: measure_phases(candidates[name]) for name in PHASED}
    outside = {
        name: 1 - found["int8 products"] / sum(found.values())
        for name, found in phases.items()
    }
    error = errors(A, B, candidates, EXACT)
    report.add(
        "gpu",
        n=n,
        num_moduli=NUM_MODULI,
        milliseconds=phases,
        share_outside_products=outside,
        int8_tops=64 * n**3 / phases["2m"]["int8 products"] / 1e9,
        peak_bytes=measure_peak(candidates["2m"]),
        error=error,
        **speeds,
    )


def by(products: tuple[tuning.Products, ...], call: Callable[[], Any]) -> Any:
    """Choose what multiplies: cuBLAS if no kernel does."""
    capability = CudaDevice().capability()
    # One object, by which scripts are found again.
    own = replace(tuning.tuning_for(capability), products=products, cublas_from=inf)

    def run() -> Any:
        with mock.patch.dict(tuning.MEASURED, {capability: own}):
            return call()

    return run


def bench_moduli(report: Report, n: int, repeats: int) -> None:
    A, B = random_pair(n)
    candidates: dict[str, Callable[[], Any]] = {
        str(count): partial(td.gemm, A, B, num_moduli=count) for count in range(8, 19)
    }
    candidates["cupy.matmul"] = partial(cp.matmul, A, B)
    speeds = measure(candidates, repeats, 8 * n**3, over_matmul="cupy.matmul")
    error = errors(A, B, candidates, candidates)
    report.add("gpu-moduli", n=n, error=error, **speeds)


def bench_host(report: Report, n: int = 64) -> None:
    """Measure the time that the host needs to launch a product."""
    A = random_matrix(n)
    candidates: dict[str, Callable[[], Any]] = {
        "gemm": partial(gemm, A, A),
        "default": partial(td.gemm, A, A),
        "herk": partial(td.herk, A, num_moduli=NUM_MODULI),
        "cupy.matmul": partial(cp.matmul, A, A),
    }
    found = {name: time_host(call) for name, call in candidates.items()}
    report.add("gpu-host", n=n, num_moduli=NUM_MODULI, host=found)


def bench_stacks(report: Report, repeats: int) -> None:
    """Count products a second in stacks, with ours at once and one by one."""
    for n in (64, 256, 512):
        pair = random_matrix(STACK * n, n, seed=1), random_matrix(STACK * n, n, seed=2)
        A, B = (x.reshape(STACK, n, n) for x in pair)
        time_stacks(report, "gemm", (A, B), cp.matmul, repeats)
        del pair, A, B
    X = random_matrix(STACK * 96, 512).astype("complex64").reshape(STACK, 96, 512)
    square = lambda x: cp.matmul(x, x.conj().swapaxes(-1, -2))  # noqa: E731
    time_stacks(report, "herk", (X,), square, repeats)


def time_stacks(
    report: Report,
    routine: str,
    stacks: tuple[Any, ...],
    native: Callable[..., Any],
    repeats: int,
) -> None:
    """Time a routine for whole stacks and for one matrix after another."""

    def one_by_one(call: Callable[..., Any]) -> Any:
        return [call(*matrices) for matrices in zip(*stacks, strict=True)]

    ours = {x: partial(getattr(td, routine), **given) for x, given in STACKED.items()}
    whole = {f"stack, {name}": partial(x, *stacks) for name, x in ours.items()}
    candidates = {name: partial(one_by_one, x) for name, x in ours.items()} | whole
    candidates["cupy.matmul, one by one"] = partial(one_by_one, native)
    candidates["cupy.matmul"] = partial(native, *stacks)
    seconds = time_calls(candidates, repeats)
    count = len(stacks[0])
    report.add(
        "gpu-stacks",
        routine=routine,
        shape=stacks[0].shape,
        dtype=str(stacks[0].dtype),
        products_per_second={k: count / median(t) for k, t in seconds.items()},
        over_matmul=ratios(seconds, "cupy.matmul"),
        milliseconds={name: measure_phases(call) for name, call in whole.items()},
        host={name: time_host(call, 5) for name, call in whole.items()},
        seconds=seconds,
    )


def bench_samples(report: Report, repeats: int) -> None:
    """Time exact herk of (re, im) pairs of int8 as a correlator has them."""
    for *stack, n, k in ((4096, 8192), (STACK, 64, 8192)):
        x = cp.random.randint(-128, 128, (*stack, n, k, 2), cp.int8)
        y = x.astype("float32").view("complex64")[..., 0]
        candidates: dict[str, Callable[[], Any]] = {
            "herk": partial(td.integers.herk, x, pairs=True),
            "cupy.matmul": partial(cp.matmul, y, y.conj().swapaxes(-1, -2)),
        }
        operations = 8 * prod(stack) * n**2 * k
        speeds = measure(candidates, repeats, operations, over_matmul="cupy.matmul")
        shown = {
            "shape": [*stack, n, k],
            "milliseconds": measure_phases(candidates["herk"]),
        }
        report.add("gpu-samples", n=n, **shown, **speeds)
        del x, y, candidates


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
        milliseconds[name] = measure_phases(partial(gemm, x, B), repeats)["fill"]
    report.add("gpu-fill", n=n, num_moduli=NUM_MODULI, milliseconds=milliseconds)


def bench_winograd(report: Report, n: int, repeats: int) -> None:
    """Time n x n products with and without a level of Winograd's algorithm."""
    A, B = random_pair(n)

    def at(levels: int) -> Any:
        with dask.config.set({"twom-dist.winograd-levels": levels}):
            return gemm(A, B)

    candidates = {"none": partial(at, 0), "one level": partial(at, 1)}
    same = bool((at(0) == at(1)).all())
    speeds = measure(candidates, repeats, 8 * n**3, over_none="none")
    report.add(
        "gpu-winograd",
        n=n,
        num_moduli=NUM_MODULI,
        same_bits=same,
        milliseconds={k: measure_phases(call) for k, call in candidates.items()},
        **speeds,
    )


def bench_shapes(report: Report, repeats: int) -> None:
    for m, n, k in ((65536, 1024, 1024), (1024, 65536, 1024), (2048, 2048, 131072)):
        A, B = random_matrix(m, k, seed=1), random_matrix(k, n, seed=2)
        candidates: dict[str, Callable[[], Any]] = {
            "2m": partial(gemm, A, B),
            "cupy.matmul": partial(cp.matmul, A, B),
        }
        speeds = measure(candidates, repeats, 8 * m * n * k, over_matmul="cupy.matmul")
        report.add(
            "gpu-shapes",
            shape=f"{m} x {n} x {k}",
            num_moduli=NUM_MODULI,
            milliseconds=measure_phases(candidates["2m"]),
            **speeds,
        )
        del A, B, candidates


def bench_dtypes(report: Report, n: int, repeats: int) -> None:
    """Time n x n products of the other dtypes, each at its default accuracy."""
    for dtype in ("complex64", "float64", "float32"):
        pair = random_pair(n)
        if not dtype.startswith("complex"):
            pair = tuple(x.real for x in pair)
        A, B = (x.astype(dtype) for x in pair)
        del pair
        candidates: dict[str, Callable[[], Any]] = {
            "gemm": partial(td.gemm, A, B),
            "cupy.matmul": partial(cp.matmul, A, B),
            "syrk": partial(td.syrk, A),
        }
        whole = (8 if dtype.startswith("complex") else 2) * n**3
        operations = dict.fromkeys(candidates, whole) | {"syrk": whole // 2}
        over = {"over_matmul": "cupy.matmul", "over_gemm": "gemm"}
        speeds = measure(candidates, repeats, operations, **over)
        error = errors(A, B, candidates, ("gemm", "cupy.matmul"))
        report.add("gpu-dtypes", n=n, dtype=dtype, error=error, **speeds)
