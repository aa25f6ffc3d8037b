"""Predict small products on an H200 from what they launch, without one.

A pass moves each byte once. The clusters of products.cu, of two blocks, take squares of
256 x 256 in turn, so that the last wave counts as a whole one. A launch takes what one
takes that finds nothing to do. The host's time is left out: a graph spares it.

    python benchmarks/small_products.py
"""

from dataclasses import dataclass
from functools import partial
from math import ceil, prod
from typing import Any
from unittest import mock

import numpy as np

import twom_dist as td
from benchmarks.clock import Clock
from twom_dist.kernels import registry
from twom_dist.kernels.cuda.engine import CudaEngine
from twom_dist.kernels.cuda.products import count_squares
from twom_dist.tiles import spec

SIZES, MODULI = (512, 1024, 2048), 16
ROUTINES = ("gemm", "herk", "syrk")
# An H200 (gpu.jsonl, "gpu"): decode of gemm from n = 1024 to 2048, 151 MB in 61 us; its
# products at 2048, 32 waves of 16 steps along k in 389 us; its fill at 1024.
BYTES_PER_SECOND = 2.48e12
STEP_SECONDS, STEP = 0.76e-6, 128
LAUNCH_SECONDS = 5.3e-6
_TRIANGLES = ("full", "lower", "upper")


@dataclass(frozen=True)
class Launch:
    """A kernel: bytes that it moves; steps along k of a cluster, squares of all."""

    name: str
    nbytes: float
    squares: int = 0
    steps: int = 0

    @property
    def seconds(self) -> float:
        """Return the time that is predicted."""
        moving = 0.0 if self.squares else self.nbytes / BYTES_PER_SECOND
        return LAUNCH_SECONDS + moving + self.steps * STEP_SECONDS


class Recorder(Clock):
    """A device that writes down launches and allocations, and does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.launches: list[Launch] = []
        self.allocated: list[int] = []
        self._planes: dict[int, tuple[int, int, int]] = {}

    @property
    def predicted(self) -> float:
        """Return the seconds of the device."""
        return sum(launch.seconds for launch in self.launches)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Write down an allocation."""
        out = np.empty(shape, dtype)
        self.allocated.append(out.nbytes)
        return out

    def total_bytes(self) -> int:
        """Return the memory of an H200."""
        return 139 << 30

    def map_planes(self, address: int, shape: tuple[int, int, int]) -> Any:
        """Write down what a product reads."""
        self._planes[address] = shape
        return np.void(bytes(128))

    def launch(
        self, module: Any, name: str, grid: Any, block: Any, args: Any, shared: int = 0
    ) -> None:
        """Write down a launch."""
        arrays = [x for x in args if isinstance(x, np.ndarray) and x.ndim > 1]
        nbytes, squares, steps = float(sum(x.nbytes for x in arrays)), 0, 0
        if name == "products":
            residues, triangle = arrays[-1], _TRIANGLES[int(args[-4])]
            count = partial(count_squares, *residues.shape[1:], side=256)
            squares = len(residues) * count(triangle=triangle)
            planes = [*self._planes.values()]
            waves = ceil(squares / (self.multiprocessors() // 2))
            steps = waves * (planes[0][2] // STEP)
            nbytes = residues.nbytes * count(triangle=triangle) / count(triangle="full")
            nbytes += sum(map(prod, planes))
        elif name == "decode_and_close":
            # One triangle of all products, or both of half of them.
            residues, out = arrays[-2:]
            nbytes = residues.nbytes * MODULI / len(residues) + out.nbytes
        elif name == "fill_product":
            nbytes = 0.0  # nothing to fill
        self.launches.append(Launch(name, nbytes, squares, steps))


class _RecordingEngine(CudaEngine):
    family = "numpy"


def record(routine: str, n: int) -> Recorder:
    """Record a product, or update, of n x n complex128 matrices with 16 moduli."""
    device = Recorder()
    engine, load = _RecordingEngine(device), registry.get_engine
    A, B = np.zeros((2, n, n), complex)
    with (
        mock.patch.object(
            spec, "get_engine", lambda name: engine if name == "cuda" else load(name)
        ),
        mock.patch.dict(registry._OF_FAMILY, numpy="cuda"),
    ):
        matrices = (A, B) if routine == "gemm" else (A,)
        getattr(td, routine)(*matrices, num_moduli=MODULI)
    return device


def main() -> None:
    """Print microseconds of the device, and how much longer gemm takes."""
    print("   n   gemm   herk   syrk   gemm : herk   gemm : syrk")
    for n in SIZES:
        gemm, herk, syrk = (record(x, n).predicted for x in ROUTINES)
        times = "".join(f"{1e6 * x:>7.0f}" for x in (gemm, herk, syrk))
        print(f"{n:>4}{times}{gemm / herk:>14.2f}{gemm / syrk:>14.2f}")


if __name__ == "__main__":
    main()
