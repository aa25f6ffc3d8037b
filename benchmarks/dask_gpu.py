"""Blocks, clusters and products that the parts of `bench_dask_gpu` share."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from harness import Report, interleave

import twom_dist as td
from twom_dist.kernels.family import namespace

# Predictions for an H100, by arithmetic from gpu.jsonl and fake-devices.jsonl.
PREDICTED = {
    "copies": "asnumpy 4 to 8 GB/s, asarray 3 then 7, pinned 50",
    "gaps": "below 0.1 ms with two threads, 1.0 to 1.5 with one",
    "products": "1.08 of the rate in memory for gemm and herk",
    "settings": "0.92 with one thread, 0.95 in dask's order, 0.93 with 2 GiB encoded",
    "pool": "as products",
    "transport": "0.5 to 2 GB/s by TLS, more than 500 past it (the same memory)",
    "files": "6 to 8 s for 16384, of which the GPU works 0.25 s",
    "streams": "no difference",
}


class Bench:
    """Sizes, blocks and clusters of all parts."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.report = args, Report(args.output)
        self.cpu = args.engine == "cpu"

    def size(self, n: int) -> int:
        """Shrink a side."""
        return n // self.args.scale

    def draw(self, rows: int, columns: int, seed: int) -> Any:
        """Draw a block where this runs."""
        if self.cpu:
            rng = np.random.default_rng(seed)
            x, y = rng.standard_normal((2, rows, columns))
            return x + 1j * y
        import cupy

        rng = cupy.random.default_rng(seed)
        out = cupy.empty((rows, columns), "c16")
        out.real, out.imag = (rng.standard_normal((rows, columns)) for _ in range(2))
        cupy.cuda.get_current_stream().synchronize()
        return out

    def persisted(self, client: Client, n: int, tile: int, seed: int) -> Any:
        """Make a matrix whose tiles lie on the workers."""
        n, tile = self.size(n), self.size(tile)
        count = n // tile
        blocks = [
            [
                client.submit(self.draw, tile, tile, seed + 64 * i + j)
                for j in range(count)
            ]
            for i in range(count)
        ]
        meta = self.draw(0, 0, 0)
        parts = [
            [da.from_delayed(x, (tile, tile), "c16", meta=meta) for x in row]
            for row in blocks
        ]
        x = client.persist(da.block(parts))
        wait(x)
        return x

    @contextmanager
    def cluster(
        self, workers: int = 1, threads: int = 2, **options: Any
    ) -> Iterator[Any]:
        """Start workers that share the GPU."""
        settings = {"memory_limit": 0, "dashboard_address": None, "silence_logs": 50}
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=threads, **settings | options
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client

    def release(self) -> None:
        """Leave workers of the same device what this process has taken of it."""
        if not self.cpu:
            import cupy

            cupy.get_default_memory_pool().free_all_blocks()

    def rate(self, name: str, n: int, seconds: list[float]) -> float:
        """Return TF/s."""
        share = 4 if name == "herk" else 8
        return share * self.size(n) ** 3 / median(seconds) / 1e12

    def add(self, part: str, **fields: Any) -> None:
        """Report a part, its prediction beside it."""
        scale = self.args.scale
        self.report.add(
            f"dask-gpu-{part}", predicted=PREDICTED[part], scale=scale, **fields
        )


def bench_wait(x: Any) -> None:
    """Wait for the device of an array."""
    if namespace(x) is not np:
        namespace(x).cuda.get_current_stream().synchronize()


def in_memory(bench: Bench, name: str, n: int, options: dict[str, Any]) -> list[float]:
    """Time one product in this process."""
    x = bench.draw(bench.size(n), bench.size(n), 1)
    given = [x] if name == "herk" else [x, x.copy()]

    def call() -> None:
        getattr(td, name)(*given, **options)
        bench_wait(x)

    return interleave({"call": call}, 3)["call"]


def by_dask(
    bench: Bench, client: Client, name: str, options: dict[str, Any], n: int = 24_576
) -> list[float]:
    """Time a product by the workers of a client."""
    given = [
        bench.persisted(client, n, 8192, seed)
        for seed in range(1 if name == "herk" else 2)
    ]

    def call() -> None:
        wait(client.persist(getattr(td, name)(*given, **options)))

    return interleave({"call": call}, 3)["call"]
