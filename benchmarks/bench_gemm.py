"""Measure square products of NumPy arrays against NumPy's and SciPy's, interleaved.

Parts: ``eager`` (gemm), ``products`` (int8 alone), ``rank_k`` (updates).
Where AMX multiplies, ``eager`` and ``products`` time VNNI beside it.

    python benchmarks/bench_gemm.py --parts eager,rank_k --sizes 512,2048
"""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import dask
import numpy as np
from scipy.linalg import blas

import twom_dist as td
from benchmarks.harness import Report, interleave, ratios, run, tera
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.products import multiply
from twom_dist.kernels.cpu.threads import available_cores, limit_threads
from twom_dist.moduli import residue_system
from twom_dist.testing import random_matrix


def bench_eager(report: Report, args: Namespace) -> None:
    """Time our methods on NumPy arrays against NumPy's zgemm."""
    for n in args.sizes:
        A, B = random_matrix(n, n, seed=1), random_matrix(n, n, seed=2)
        candidates: dict[str, Callable[[], Any]] = {"numpy": partial(np.matmul, A, B)}
        for count in args.num_moduli:
            call = candidates[f"2m-{count}"] = partial(td.zgemm, A, B, num_moduli=count)
            if multiply.select_tiles() is not None:
                candidates[f"2m-{count} by VNNI"] = without_amx(call)
        candidates["3m"] = partial(td.zgemm, A, B, method="3m", num_moduli=15)
        candidates["default"] = partial(td.zgemm, A, B)
        seconds = interleave(candidates, args.repeats)
        report.add(
            "gemm-eager",
            n=n,
            ratio_to_numpy=ratios(seconds, "numpy"),
            gflops=tera(seconds, 8e3 * n**3),
            seconds=seconds,
            int8=multiply.name_kernel(),
            plan=td.plan(td.gemm, (n, n), (n, n)).to_json(),
        )


def without_amx(call: Callable[[], Any]) -> Callable[[], Any]:

    def run() -> Any:
        with mock.patch.object(multiply, "select_tiles", return_value=None):
            return call()

    return run


def bench_products(report: Report, args: Namespace) -> None:
    """Time the int8 products alone, on one thread and on all."""
    engine, system = get_engine("cpu"), residue_system("2m", args.num_moduli[0])
    for n in args.sizes:
        exponents = np.full(n, system.part_bits - 4, np.int32)
        x = engine.encode(random_matrix(n, n, seed=1), exponents, system)
        residues = engine.multiply(x, x, system)
        call = partial(engine.multiply, x, x, system, residues, overwrite=True)
        candidates = {multiply.name_kernel(): call}
        if multiply.select_tiles() is not None:
            candidates["avx512-vnni"] = without_amx(call)
        for threads in sorted({1, available_cores()}):
            without = {"twom-dist.winograd-levels": 0}
            with limit_threads(threads), dask.config.set(without):
                seconds = interleave(candidates, args.repeats)
            report.add(
                "gemm-products",
                n=n,
                threads=threads,
                tera_operations=tera(seconds, 2.0 * system.num_products * n**3),
                seconds=seconds,
            )


def bench_rank_k(report: Report, args: Namespace) -> None:
    for n in args.sizes:
        A = random_matrix(n, n, seed=1)
        F = A.T  # SciPy's BLAS takes Fortran order: no copy is timed.
        R = A.real.copy()
        complex_ones: dict[str, Callable[[], Any]] = {
            "gemm": lambda A=A: td.gemm(A, A, op_b="C", num_moduli=16),
            "herk": lambda A=A: td.herk(A, num_moduli=16),
            "numpy A @ A.conj().T": lambda A=A: A @ A.conj().T,
            "scipy zherk": lambda F=F: blas.zherk(1, F, trans=2),
        }
        real_ones: dict[str, Callable[[], Any]] = {
            "dgemm": lambda R=R: td.dgemm(R, R, op_b="T", num_moduli=15),
            "dsyrk": lambda R=R: td.dsyrk(R, num_moduli=15),
        }
        for name, candidates in (("herk", complex_ones), ("dsyrk", real_ones)):
            seconds = interleave(candidates, args.repeats)
            speed = {
                f"{name} over {other}": ratios(seconds, other)[name]
                for other in candidates
                if other != name
            }
            report.add("rank-k", n=n, routine=name, speed=speed, seconds=seconds)


if __name__ == "__main__":
    options = {"sizes": [512, 1024, 2048, 4096], "num_moduli": [16], "repeats": 5}
    run(__doc__, bench_eager, bench_products, bench_rank_k, **options)
