"""Which engine multiplies what, and its int8 product: exact, and how fast."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from time import perf_counter

import numpy as np

from ..config import rate_setting
from ..errors import EngineUnavailableError, KernelError
from ..kernels.registry import load_engine
from ..typing import Array
from .nvml import Gpus
from .report import Finding, failure, fine, refused, warning

# What plans assume is worth a word if it is more than so many times what is measured.
TOO_HOPEFUL = 2.0
_SETTING = "int8-ops-per-second"
_RUNS = 5


def check_engine(gpus: Gpus) -> Iterator[Finding]:
    """Say which engine multiplies which arrays, and why."""
    name, host = "engine", "cpu multiplies NumPy arrays"
    try:
        # Not made: its int8 product has a check of its own.
        load_engine("cpu")
    except EngineUnavailableError as error:
        yield refused(name, error)
        return
    if not gpus.visible:
        yield fine(name, f"{host}; CuPy arrays need a GPU, and {gpus.reason}")
        return
    from ..kernels.cuda.device import open_device

    try:
        open_device()
    except EngineUnavailableError as error:
        refusal = refused(name, error)
        found = f"{host}; nothing multiplies CuPy arrays, as {refusal.found}"
        # Somebody who has CuPy counts on it.
        make = failure if find_spec("cupy") else warning
        yield make(name, found, refusal.advice)
    else:
        yield fine(name, f"{host}, and cuda CuPy arrays")


def check_int8() -> Iterator[Finding]:
    """Multiply extreme values on the host, and time a block of the engine's size."""
    from ..kernels.cpu import int8_gemm
    from ..kernels.cpu.tuning import BLOCK

    name = "int8 product, cpu"
    try:
        kernel = int8_gemm.select_kernel()
    except KernelError as error:
        yield refused(name, error)
        return
    gemm = int8_gemm.get_gemm()
    # Chosen for being exact, in this process perhaps long ago.
    if not int8_gemm.is_exact(gemm):
        found = f"{kernel} is no longer exact"
        yield failure(name, found, "test the memory of this machine")
        return
    a = np.full((BLOCK, BLOCK), 255, np.uint8)
    b = np.full((BLOCK, BLOCK), 127, np.int8)
    sums = np.empty((BLOCK, BLOCK), np.int32)
    rate = measure(lambda: gemm(a, b, sums), 2 * BLOCK**3)
    found = f"{kernel}, exact, {describe_rate(rate)} on one core"
    if kernel != int8_gemm.KERNELS[0]:
        advice = "results are right, and come faster from a CPU with VNNI or AMX"
        yield warning(name, f"{found}: this CPU's int8 products saturate", advice)
    elif rate * TOO_HOPEFUL < rate_setting(_SETTING):
        advice = f"unless the machine is busy, set twom-dist.{_SETTING} to {rate:.1e}"
        yield warning(name, found, advice)
    else:
        yield fine(name, found)


def measure(multiply: Callable[[], object], operations: int) -> float:
    """Operations per second of the fastest run, after one that warms up."""
    seconds = []
    for _ in range(1 + _RUNS):
        start = perf_counter()
        multiply()
        seconds.append(perf_counter() - start)
    return operations / min(seconds[1:])


def describe_rate(rate: float) -> str:
    """Put a rate beside the one that plans assume."""
    assumed = rate_setting(_SETTING)
    return f"{rate / 1e9:,.0f} Gop/s (plans assume {assumed / 1e9:,.0f})"


def extreme_operands() -> tuple[Array, Array]:
    """Make operands of ``x y^T`` that saturate, in sizes for tensor cores.

    ``|sum| <= 1040 * 128 * 128 < 2**25``.
    """
    x = np.full((1, 48, 1040), -128, np.int8)
    y = np.full((1, 80, 1040), 127, np.int8)
    x[:, 1::2], y[:, 1::3] = 127, -128
    return x, y
