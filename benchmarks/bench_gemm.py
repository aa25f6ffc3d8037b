"""Measure gemm against NumPy's zgemm and dask's matmul, interleaved in one process.

Sections: ``eager`` (NumPy arrays), ``products`` (int8 alone), ``accuracy`` (sampled
entries against exact sums), ``dask`` (a local cluster: time, bytes moved, peak managed
bytes), ``startup`` (first product of a new process, with and without compiled kernels).

Where AMX multiplies, ``eager`` and ``products`` time VNNI beside it.

    python benchmarks/bench_gemm.py --sections eager,accuracy --sizes 512,2048
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import dask
import numpy as np
from harness import Report, interleave, ratios, transfer_counters

import twom_dist as td
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.products import multiply, packed
from twom_dist.kernels.cpu.threads import available_cores, limit_threads
from twom_dist.moduli import residue_system
from twom_dist.testing import random_matrix, sampled_errors


def gflops(m: int, n: int, k: int, seconds: list[float]) -> float:
    """Return the effective rate at 8mnk, from the median time."""
    return 8 * m * n * k / float(np.median(seconds)) / 1e9


def bench_eager(report: Report, args: argparse.Namespace) -> None:
    """Time our methods on NumPy arrays against NumPy's zgemm."""
    for n in args.sizes:
        A, B = random_matrix(n, n, seed=1), random_matrix(n, n, seed=2)
        candidates: dict[str, Any] = {"numpy": lambda A=A, B=B: A @ B}
        for moduli in args.num_moduli:
            candidates[f"2m-{moduli}"] = lambda A=A, B=B, N=moduli: td.zgemm(
                A, B, num_moduli=N
            )
            if multiply.select_tiles() is not None:
                by_vnni = without_amx(candidates[f"2m-{moduli}"])
                candidates[f"2m-{moduli} by VNNI"] = by_vnni
        candidates["eisenstein"] = lambda A=A, B=B: td.zgemm(
            A, B, num_moduli=16, method="eisenstein"
        )
        candidates["3m"] = lambda A=A, B=B: td.zgemm(A, B, num_moduli=15, method="3m")
        candidates["default"] = lambda A=A, B=B: td.zgemm(A, B)
        seconds = interleave(candidates, args.repeats)
        report.add(
            "gemm-eager",
            n=n,
            ratio_to_numpy=ratios(seconds, "numpy"),
            gflops={name: gflops(n, n, n, t) for name, t in seconds.items()},
            seconds=seconds,
            int8=multiply.name_kernel(),
            plan=td.plan(td.gemm, (n, n), (n, n)).to_json(),
        )


def without_amx(call: Callable[[], Any]) -> Callable[[], Any]:
    """Leave the products to VNNI."""

    def run() -> Any:
        with mock.patch.object(multiply, "select_tiles", return_value=None):
            return call()

    return run


def with_strips(nbytes: int, call: Callable[[], Any]) -> Callable[[], Any]:
    """Give strips of AMX's left operand so many bytes."""

    def run() -> Any:
        try:
            with mock.patch.object(packed, "TILES_BYTES", nbytes):
                packed._plan.cache_clear()  # it keeps the rows of a strip
                return call()
        finally:
            packed._plan.cache_clear()

    return run


def bench_products(report: Report, args: argparse.Namespace) -> None:
    """Time the int8 products alone, on one thread and on all."""
    engine, system = get_engine("cpu"), residue_system("2m", args.num_moduli[0])
    for n in args.sizes:
        exponents = np.full(n, system.part_bits - 4, np.int32)
        x = engine.encode(random_matrix(n, n, seed=1), exponents, system)
        residues = engine.multiply(x, x, system)

        def call(x: Any = x, residues: Any = residues) -> None:
            engine.multiply(x, x, system, residues, overwrite=True)

        candidates = {multiply.name_kernel(): call}
        if multiply.select_tiles() is not None:
            candidates["avx512-vnni"] = without_amx(call)
            for kib in (128, 256, 1024):
                own = with_strips(kib << 10, call)
                candidates[f"amx-int8, strips of {kib} KiB"] = own
        for threads in sorted({1, available_cores()}):
            without = {"twom-dist.winograd-levels": 0}
            with limit_threads(threads), dask.config.set(without):
                seconds = interleave(candidates, args.repeats)
            operations = 2.0 * system.num_products * n**3
            rate = {k: operations / np.median(t) / 1e12 for k, t in seconds.items()}
            report.add(
                "gemm-products",
                n=n,
                threads=threads,
                tera_operations=rate,
                seconds=seconds,
            )


def bench_accuracy(report: Report, args: argparse.Namespace) -> None:
    """Compare sampled entries with exact sums, for each spread of magnitudes."""
    n = args.accuracy_size
    for phi in args.phi:
        A = random_matrix(n, n, phi=phi, seed=3)
        B = random_matrix(n, n, phi=phi, seed=4)
        products = {"numpy": A @ B}
        for moduli in (*args.num_moduli, 15):
            products[f"2m-{moduli}"] = td.zgemm(A, B, num_moduli=moduli)
        errors = {name: sampled_errors(A, B, C) for name, C in products.items()}
        report.add("gemm-accuracy", n=n, phi=phi, sampled_errors=errors)


def bench_dask(report: Report, args: argparse.Namespace) -> None:
    """Compare with da.matmul on a local cluster, inputs in the graph or persisted."""
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    tile = args.dask_tile
    n = 8 * tile
    with (
        LocalCluster(
            n_workers=args.n_workers, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):

        def source(seed: int) -> Any:
            chunks = ((tile,) * 8,) * 2
            return da.map_blocks(
                _random_block, chunks=chunks, seed=seed, tile=tile, dtype="c16"
            )

        plan = td.plan(td.gemm, (n, n), (n, n), chunks=tile, n_workers=args.n_workers)
        for persisted in (False, True):
            routines: dict[str, Any] = {
                "da.matmul": da.matmul,
                "zgemm": partial(td.zgemm, num_moduli=16),
                "default": td.zgemm,
            }
            seconds: dict[str, list[float]] = {name: [] for name in routines}
            counters: dict[str, Any] = {}
            for turn in range(args.repeats + 1):
                for name, routine in routines.items():
                    A, B = source(2 * turn), source(2 * turn + 1)
                    if persisted:
                        A, B = client.persist([A, B])
                        wait([A, B])
                    with transfer_counters(client) as found:
                        start = time.perf_counter()
                        result = client.persist(routine(A, B))
                        wait(result)
                        elapsed = time.perf_counter() - start
                    counters[name] = found
                    del A, B, result
                    if turn:
                        seconds[name].append(elapsed)
            report.add(
                "gemm-dask",
                n=n,
                tiles=8,
                workers=args.n_workers,
                inputs="persisted" if persisted else "graph",
                ratio_to_matmul=ratios(seconds, "da.matmul"),
                bytes_moved={k: v["bytes_moved"] for k, v in counters.items()},
                peak_managed_bytes={
                    k: v["peak_managed_bytes"] for k, v in counters.items()
                },
                planned_bytes_moved=plan.bytes_moved,
                planned_peak_bytes=plan.peak_worker_bytes,
                seconds=seconds,
                plan=plan.to_json(),
            )


def _random_block(seed: int, tile: int, block_info: Any = None) -> np.ndarray:
    i, j = block_info[None]["chunk-location"]
    return random_matrix(tile, tile, seed=[seed, i, j])


_FIRST_PRODUCT = """
import time
start = time.perf_counter()
import numpy as np, twom_dist as td
A = np.ones((512, 512), complex)
td.zgemm(A, A)
print(time.perf_counter() - start)
"""


def bench_startup(report: Report, args: argparse.Namespace) -> None:
    """Time the first product of a new process, imports included."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        seconds = []
        for _ in range(args.repeats + 1):
            call = [sys.executable, "-c", _FIRST_PRODUCT]
            done = subprocess.run(
                call, env=environment, capture_output=True, text=True, check=True
            )
            seconds.append(float(done.stdout))
    report.add(
        "gemm-startup",
        compile_and_first_product=seconds[0],
        cached_first_product=float(np.median(seconds[1:])),
        seconds=seconds,
    )


SECTIONS = {
    "eager": bench_eager,
    "products": bench_products,
    "accuracy": bench_accuracy,
    "dask": bench_dask,
    "startup": bench_startup,
}


def _integers(text: str) -> list[int]:
    return [int(t) for t in text.split(",")]


def main() -> None:
    """Run the requested sections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--sizes", type=_integers, default=[512, 1024, 2048, 4096])
    parser.add_argument("--num-moduli", type=_integers, default=[16])
    parser.add_argument("--phi", type=_integers, default=[0, 1, 2, 4])
    parser.add_argument("--accuracy-size", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--n-workers", type=int, default=4)
    parser.add_argument("--dask-tile", type=int, default=512)
    parser.add_argument("--output", help="append JSON lines to this file")
    args = parser.parse_args()
    report = Report(args.output)
    for section in args.sections.split(","):
        SECTIONS[section](report, args)


if __name__ == "__main__":
    main()
