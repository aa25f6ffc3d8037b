"""Measure products of CuPy arrays: speed, phases, memory; cuBLAS in the same run.

python benchmarks/bench_gpu.py --sizes 1024,2048,4096,8192,16384 --output FILE
"""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import cupy as cp
from harness import Report, ratios

import twom_dist as td
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda.device import CudaDevice
from twom_dist.kernels.cuda.engine import CudaEngine
from twom_dist.tiles import spec as spec_module

NUM_MODULI = 16
# cuBLAS with its own emulation of FP64, asked for through the environment.
EMULATION = {
    "eager": {"CUBLAS_EMULATION_STRATEGY": "eager"},
    "performant": {"CUBLAS_EMULATION_STRATEGY": "performant"},
}
STAGES = {
    "norms": ("largest_bits", "largest_exponents", "square_sums", "choose_exponents"),
    "encode": ("encode",),
    "int8 products": ("multiply_int8", "products"),
    "requantise": ("requantise", "combine"),
    "decode": ("decode",),
    "fill": ("mark_nonfinite", "fill_nonfinite"),
}


class TimedDevice(CudaDevice):
    """Records an event around every call."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, Any, Any]] = []

    def _timed(self, name: str, call: Callable[[], None]) -> None:
        start, stop = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        call()
        stop.record()
        self.events.append((name, start, stop))

    def launch(self, module: Any, name: str, *args: Any) -> None:
        """Launch between two events."""
        self._timed(name, lambda: super(TimedDevice, self).launch(module, name, *args))

    def multiply_int8(self, *args: Any) -> None:
        """Multiply between two events."""
        call = super().multiply_int8
        self._timed("multiply_int8", lambda: call(*args))

    def milliseconds(self) -> dict[str, float]:
        """Add up the times of each stage, and forget them."""
        cp.cuda.get_current_stream().synchronize()
        total: dict[str, float] = defaultdict(float)
        for name, start, stop in self.events:
            stage = next(s for s, names in STAGES.items() if name in names)
            total[stage] += cp.cuda.get_elapsed_time(start, stop)
        self.events.clear()
        return dict(total)


def time_calls(
    candidates: Mapping[str, Callable[[], Any]], repeats: int
) -> dict[str, list[float]]:
    """Seconds of each candidate on the device, in turns, after one that warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    stream = cp.cuda.get_current_stream()
    for turn in range(repeats + 1):
        for name, call in candidates.items():
            stream.synchronize()
            start, stop = cp.cuda.Event(), cp.cuda.Event()
            start.record()
            out = call()
            stop.record()
            stop.synchronize()
            del out
            if turn:
                seconds[name].append(cp.cuda.get_elapsed_time(start, stop) / 1e3)
    return seconds


def random_matrix(n: int, dtype: Any = "complex128") -> Any:
    """Draw normal entries on the device."""
    x = cp.random.standard_normal((n, n))
    if cp.dtype(dtype).kind != "c":
        return x
    return (x + 1j * cp.random.standard_normal((n, n))).astype(dtype)


def measure_phases(call: Callable[[], Any], repeats: int = 3) -> dict[str, float]:
    """Median milliseconds of each stage, the device's clock between two events."""
    device = TimedDevice()
    engine, load = CudaEngine(device), spec_module.get_engine
    spec_module.get_engine = lambda name: engine if name == "cuda" else load(name)
    try:
        call()
        device.milliseconds()
        runs = []
        for _ in range(repeats):
            call()
            runs.append(device.milliseconds())
    finally:
        spec_module.get_engine = load
    return {stage: median(run.get(stage, 0.0) for run in runs) for stage in STAGES}


def measure_peak(call: Callable[[], Any]) -> int:
    """Most bytes that the pool holds beyond what is alive before the call."""
    pool = cp.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    out = call()
    peak = pool.total_bytes() - before
    del out
    return int(peak)


def bench(report: Report, n: int, repeats: int) -> None:
    """Time n x n products and rank-n updates."""
    cp.get_default_memory_pool().free_all_blocks()
    A, B = random_matrix(n), random_matrix(n)
    candidates: dict[str, Callable[[], Any]] = {
        "2m": lambda: td.gemm(A, B, num_moduli=NUM_MODULI),
        "3m": lambda: td.gemm(A, B, num_moduli=NUM_MODULI - 1, method="3m"),
        "cupy.matmul": lambda: cp.matmul(A, B),
        "herk": lambda: td.herk(A, num_moduli=NUM_MODULI),
    }
    seconds = time_calls(candidates, repeats)
    gemm = candidates["2m"]
    phases = measure_phases(gemm)
    outside = sum(v for k, v in phases.items() if k != "int8 products")
    operations = dict.fromkeys(candidates, 8 * n**3) | {"herk": 4 * n**3}
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
        share_outside_products=outside / sum(phases.values()),
        int8_tops=16 * 2 * 2 * n**3 / phases["int8 products"] / 1e9,
        peak_bytes=measure_peak(gemm),
        relative_error=relative_error(A, B, gemm()),
        seconds=seconds,
    )


def relative_error(A: Any, B: Any, C: Any) -> dict[str, float]:
    """Norm of ``(C - A B) x`` over that of ``|A| |B| |x|``, x random; cuBLAS beside."""
    x = cp.random.standard_normal((A.shape[0], 4)).astype(complex)
    exact, scale = A @ (B @ x), cp.abs(A) @ (cp.abs(B) @ cp.abs(x))
    return {
        name: float(cp.linalg.norm(Z @ x - exact) / cp.linalg.norm(scale))
        for name, Z in (("2m", C), ("cupy.matmul", A @ B))
    }


def bench_emulation(report: Report, sizes: list[int], repeats: int) -> None:
    """Time cuBLAS's own emulation, in a process whose environment asks for it."""
    for name, extra in EMULATION.items():
        environment = {**os.environ, "CUBLAS_EMULATE_DOUBLE_PRECISION": "1", **extra}
        command = [sys.executable, __file__, "--peer", "--repeats", str(repeats)]
        command += ["--sizes", ",".join(map(str, sizes))]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"emulation {name}: {done.stderr[-300:]}", flush=True)
            continue
        for n, tflops in json.loads(done.stdout.splitlines()[-1]).items():
            report.add("gpu-emulation", n=int(n), strategy=name, tflops=tflops)


def run_peer(sizes: list[int], repeats: int) -> None:
    """Print the speed of ``cupy.matmul`` in this environment, by size."""
    found = {}
    for n in sizes:
        A, B = random_matrix(n), random_matrix(n)
        times = time_calls({"matmul": lambda a=A, b=B: cp.matmul(a, b)}, repeats)
        found[n] = 8 * n**3 / median(times["matmul"]) / 1e12
        del A, B
    print(json.dumps(found))


def describe_device() -> str:
    """Name, memory, CUDA and cuBLAS of the current device."""
    properties = cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)
    version = cp.cuda.cublas.getVersion(cp.cuda.device.get_cublas_handle())
    return (
        f"{properties['name'].decode()}, {properties['totalGlobalMem'] >> 30} GiB, "
        f"CUDA {cp.cuda.runtime.runtimeGetVersion()}, cuBLAS {version}"
    )


def main() -> None:
    """Run the sizes asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="512,1024,2048,4096,8192,16384")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", help="append JSON lines to this file")
    parser.add_argument("--peer", action="store_true", help="time cupy.matmul alone")
    args = parser.parse_args()
    sizes = [int(n) for n in args.sizes.split(",")]
    if args.peer:
        run_peer(sizes, args.repeats)
        return
    get_engine("cuda")
    report = Report(args.output)
    report.common |= {"device": describe_device(), "cupy": cp.__version__}
    for n in sizes:
        bench(report, n, args.repeats)
    bench_emulation(report, [n for n in sizes if n >= 2048], args.repeats)


if __name__ == "__main__":
    main()
