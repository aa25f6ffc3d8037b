"""Ceilings of a GPU, and the time that the stages of a product need at them."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import cupy as cp
from gpu_clock import time_calls
from harness import Report

from twom_dist.kernels.cuda.at_once import fits
from twom_dist.kernels.cuda.device import CudaDevice
from twom_dist.moduli import residue_system

try:
    import torch
except ImportError:
    torch = None

# Sides and numbers of planes of cuBLAS's int8 products.
INT8_SHAPES = ((1024, 32), (2048, 32), (4096, 1), (4096, 8), (8192, 1), (8192, 4))


def measure_copy(count: int = 1 << 29) -> float:
    """Return the bytes a second, read and written, of a copy of some doubles."""
    x, y = cp.ones(count), cp.empty(count)
    seconds = time_calls({"copy": lambda: cp.copyto(y, x)}, 5)["copy"]
    return 2 * x.nbytes / median(seconds)


def multiply_by_torch(x: Any) -> Any:
    """Compute X X^T in int32 by cublasLt, whose calls CuPy lacks."""
    same = torch.from_dlpack(x)
    return torch._int_mm(same, same.t())


def measure_ceilings(report: Report) -> dict[str, float]:
    """Measure bytes a second of a copy, and int8 operations of cuBLAS and cublasLt."""
    device = CudaDevice()
    rates: dict[str, dict[str, float]] = defaultdict(dict)
    for n, batch in INT8_SHAPES:
        planes = cp.random.randint(-128, 128, (batch, n, n), cp.int8)
        sums = cp.empty((batch, n, n), cp.int32)
        candidates: dict[str, Callable[[], Any]] = {
            "cublas": lambda p=planes, s=sums: device.multiply_int8(p, p, s)
        }
        if batch == 1 and torch is not None and torch.cuda.is_available():
            candidates["cublaslt"] = lambda p=planes: multiply_by_torch(p[0])
        for name, seconds in time_calls(candidates, 5).items():
            rates[name][f"{batch} x {n}"] = 2 * batch * n**3 / median(seconds)
        del planes, sums, candidates
    found = {
        "bytes": measure_copy(),
        "int8": max(max(own.values()) for own in rates.values()),
    }
    tops = {
        name: {shape: rate / 1e12 for shape, rate in own.items()}
        for name, own in rates.items()
    }
    report.add("gpu-ceilings", terabytes=found["bytes"] / 1e12, int8_tops=tops)
    return found


def find_floors(
    shape: tuple[int, int, int],
    moduli: int,
    ceilings: Mapping[str, float],
    *,
    update: bool = False,
) -> dict[str, float]:
    """Return the milliseconds of the stages of a 2m product at the measured ceilings.

    `update`: herk or syrk, which encode one matrix and compute half of the result.
    Operands whose rows fit shared memory are read once, as they are encoded.
    """
    m, n, k = shape
    system = residue_system("2m", moduli)
    reads = 0 if fits(CudaDevice(), system, k) else 2
    inputs, planes = (m if update else m + n) * k, 2 * moduli
    entries = m * n / 2 if update else m * n
    rates = ceilings["bytes"] / 1e3, ceilings["int8"] / 1e3
    return {
        "norms": reads * 16 * inputs / rates[0],
        "encode": (16 + planes) * inputs / rates[0],
        "int8 products": max(
            planes * 2 * entries * k / rates[1], planes * entries / rates[0]
        ),
        "decode": (planes + 16) * entries / rates[0],
        "close": 2 * 16 * entries / rates[0] if update else 0.0,
    }
