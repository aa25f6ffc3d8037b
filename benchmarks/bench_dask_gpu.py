"""Measure products of dask arrays of CuPy blocks by one worker of one GPU.

Parts: ``products`` (against one product in memory), ``pool`` (by a worker of dask-cuda
with a pool of RMM, as `td.local_cluster` starts it). ``--scale 64 --engine cpu`` tries
them on NumPy blocks whose sides are 1/64 as long, without a GPU.

    python benchmarks/bench_dask_gpu.py --parts products
"""

from argparse import Namespace
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from typing import Any

import dask.array as da
import numpy as np
from distributed import wait

import twom_dist as td
from benchmarks.harness import Report, interleave, run, start_client
from twom_dist.kernels.family import namespace

SIDE, TILE, IN_MEMORY = 24_576, 8192, (8192, 16_384)
KINDS = (("gemm", {}), ("gemm", {"num_moduli": 16}), ("herk", {}))


def draw(gpu: bool, side: int, seed: int) -> Any:
    xp = import_module("cupy" if gpu else "numpy")
    rng, out = xp.random.default_rng(seed), xp.empty((side, side), "c16")
    out.real, out.imag = (rng.standard_normal((side, side)) for _ in range(2))
    finish(out)
    return out


def finish(x: Any) -> None:
    """Wait for the device of an array."""
    if namespace(x) is not np:
        namespace(x).cuda.get_current_stream().synchronize()


def time_in_memory(args: Namespace, name: str, n: int, options: Any) -> float:
    """Return TFLOP/s of one product in this process."""
    x = draw(args.engine == "cuda", n // args.scale, 1)
    given = [x] if name == "herk" else [x, x.copy()]

    def call() -> None:
        getattr(td, name)(*given, **options)
        finish(x)

    return rate(name, len(x), interleave({"call": call}, 3)["call"])


def time_by_dask(args: Namespace, client: Any, name: str, options: Any) -> float:
    """Return TFLOP/s of a product whose operands lie on the workers of a client."""
    n, tile, gpu = SIDE // args.scale, TILE // args.scale, args.engine == "cuda"
    meta, count, given = draw(gpu, 0, 0), n // tile, []
    for seed in range(1 if name == "herk" else 2):
        drawn = [client.submit(draw, gpu, tile, seed + 64 * x) for x in range(count**2)]
        tiles = [da.from_delayed(x, (tile, tile), "c16", meta=meta) for x in drawn]
        rows = [tiles[i : i + count] for i in range(0, count**2, count)]
        given.append(client.persist(da.block(rows)))
    wait(given)

    def call() -> None:
        wait(client.persist(getattr(td, name)(*given, **options)))

    return rate(name, n, interleave({"call": call}, 3)["call"])


def rate(name: str, n: int, seconds: list[float]) -> float:
    return (4 if name == "herk" else 8) * n**3 / median(seconds) / 1e12


def bench_products(report: Report, args: Namespace) -> None:
    """Compare one worker with one product of the largest size that fits."""
    for name, options in KINDS:
        rates = {n: time_in_memory(args, name, n, options) for n in IN_MEMORY}
        if args.engine == "cuda":
            # The worker takes the same device.
            import_module("cupy").get_default_memory_pool().free_all_blocks()
        with start_client(1, 2, memory_limit=0) as client:
            found = time_by_dask(args, client, name, options)
        given = {"scale": args.scale, "routine": name, "options": options}
        speeds = {"tflops_in_memory": rates, "over_in_memory": found / rates[TILE]}
        report.add("dask-gpu-products", **given, tflops=found, **speeds)


def bench_pool(report: Report, args: Namespace) -> None:
    """Use the cluster that users start."""
    if args.engine == "cpu" or find_spec("dask_cuda") is None:
        return
    # 0 spills never.
    for name, options in (("default", {}), ("none", {"device_memory_limit": 0})):
        with td.local_cluster(n_workers=1, gpus=True, **options) as client:
            found = time_by_dask(args, client, "gemm", {"num_moduli": 16})
        given = {"device_memory_limit": name, "tflops": found}
        report.add("dask-gpu-pool", scale=args.scale, **given)


if __name__ == "__main__":
    run(__doc__, bench_products, bench_pool, engine="cuda", scale=1)
