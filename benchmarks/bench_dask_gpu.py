"""Measure products of dask arrays of CuPy blocks on one GPU, part by part.

Each part prints its prediction beside what it measures. All of them together take less
than ten minutes on an H100; ``--scale 64 --engine cpu`` tries them on NumPy blocks
whose sides are 1/64 as long, without a GPU.

    python benchmarks/bench_dask_gpu.py --parts copies,gaps,products

* ``copies``: 1 GiB to the device and back, pageable and pinned, beside a product.
* ``gaps``: the device's idle time between two tasks that follow each other.
* ``products``: one worker against one product in memory.
* ``settings``: the same with one thread, without our order, with little kept encoded.
* ``pool``: a worker of dask-cuda with a pool of RMM, as `td.local_cluster` starts it.
* ``transport``: two workers of one GPU, by dask's connection and past it.
* ``files``: from zarr to zarr in memory-backed files.
* ``streams``: two threads and little cache, many products, compared bit by bit.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from statistics import median
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask_gpu import Bench, bench_wait, by_dask, in_memory
from distributed import wait
from harness import interleave, ratios

import twom_dist as td

# --- the parts ------------------------------------------------------------------------


def copies(bench: Bench) -> None:
    """Copy to the device and back."""
    if bench.cpu:
        return
    import cupy

    host = np.ones(2**26 // bench.args.scale, "c16")
    pinned = cupy.cuda.alloc_pinned_memory(host.nbytes)
    locked = np.frombuffer(pinned, "c16", host.size)
    locked[:] = host
    device, side = cupy.asarray(host), bench.size(8192)
    square = bench.draw(side, side, 1)
    other = cupy.cuda.Stream(non_blocking=True)

    def by(stream: Any, call: Callable[[], Any]) -> None:
        with stream:
            call()
        stream.synchronize()

    null = cupy.cuda.Stream.null
    candidates = {
        "asnumpy": lambda: cupy.asnumpy(device),
        "asarray": lambda: by(null, lambda: cupy.asarray(host)),
        "pinned to device": lambda: by(other, lambda: device.set(locked)),
        "pinned to host": lambda: by(other, lambda: device.get(out=locked)),
    }
    seconds = interleave(candidates, 3)
    rates = {x: host.nbytes / median(y) / 1e9 for x, y in seconds.items()}

    def beside(stream: Any) -> float:
        """Return the seconds of a copy that begins while a product runs."""
        td.zgemm(square, square, num_moduli=16)
        start = time.perf_counter()
        by(stream, lambda: device.get(out=locked))
        return time.perf_counter() - start

    beside(null)
    shared = {"null stream": beside(null), "own stream": beside(other)}
    null.synchronize()
    bench.add("copies", gb_per_second=rates, seconds_beside_a_product=shared)


def gaps(bench: Bench) -> None:
    """Compare a chain of products in memory with the same by tasks."""
    n = 24_576 if not bench.cpu else 8192
    for threads in (1, 2):
        with bench.cluster(threads=threads) as client:
            side = bench.size(n)
            plan = td.plan(td.gemm, *[(side, side)] * 2, chunks=bench.size(8192))
            seconds = median(by_dask(bench, client, "gemm", {"num_moduli": 16}, n))
        side = bench.draw(bench.size(8192), bench.size(8192), 1)

        def one(side: Any = side) -> None:
            td.zgemm(side, side, num_moduli=16)
            bench_wait(side)

        alone = median(interleave({"one": one}, 5)["one"])
        count = (n // 8192) ** 3
        gap = (seconds - count * alone) / plan.num_tasks
        bench.add("gaps", threads=threads, gap_seconds_a_task=gap, seconds=seconds)


PRODUCTS = 20
KINDS = (("gemm", {}), ("gemm", {"num_moduli": 16}), ("herk", {}))


def products(bench: Bench) -> None:
    """Compare one worker with one product of the largest size that fits."""
    for name, options in KINDS:
        alone = {n: in_memory(bench, name, n, options) for n in (8192, 16_384)}
        bench.release()
        rates = {n: bench.rate(name, n, x) for n, x in alone.items()}
        with bench.cluster() as client:
            found = by_dask(bench, client, name, options)
        rate = bench.rate(name, 24_576, found)
        bench.add(
            "products",
            routine=name,
            options=options,
            tflops_in_memory=rates,
            tflops=rate,
            over_in_memory=rate / rates[8192],
        )


def settings(bench: Bench) -> None:
    """Take away what makes it fast, one thing after another."""
    small = {"twom-dist.cache-bytes": f"{2 * 2**30 // bench.args.scale**2} B"}
    long = {"twom-dist.panel-bytes": "1 TiB"}
    unplaced = {"twom-dist.placement": False}
    ways = {"all": (2, {}), "one thread": (1, {}), "2 GiB encoded": (2, small)}
    ways |= {"k in one task": (2, long), "dask's order": (2, unplaced)}
    seconds = {}
    for way, (threads, changed) in ways.items():
        with bench.cluster(threads=threads) as client, dask.config.set(changed):
            seconds[way] = by_dask(bench, client, "gemm", {"num_moduli": 16})
    bench.add("settings", speed=ratios(seconds, "all"), seconds=seconds)


def pool(bench: Bench) -> None:
    """Use the cluster that users start."""
    if bench.cpu or find_spec("dask_cuda") is None:
        return
    # 0 spills never.
    for limit in (None, 0):
        options = {} if limit is None else {"device_memory_limit": limit}
        with td.local_cluster(n_workers=1, gpus=True, **options) as client:
            found = by_dask(bench, client, "gemm", {"num_moduli": 16})
        rate = bench.rate("gemm", 24_576, found)
        bench.add(
            "pool", device_memory_limit="none" if limit == 0 else "default", tflops=rate
        )


def transport(bench: Bench) -> None:
    """Send tiles from one worker to the other."""
    for secure in (False, True):
        for way in ("dask", "auto"):
            with (
                dask.config.set({"twom-dist.transport": way}),
                bench.cluster(2, host="127.0.0.1", security=secure or None) as client,
            ):
                one, other = sorted(client.scheduler_info(n_workers=-1)["workers"])
                # A product registers the plugins.
                td.gemm(*[bench.persisted(client, 8192, 4096, 5)] * 2)
                side, moved = bench.size(8192), []
                for turn in range(4):
                    x = client.submit(bench.draw, side, side, turn, workers=[one])
                    wait(x)
                    start = time.perf_counter()
                    wait(client.submit(bench_wait, x, workers=[other], pure=False))
                    moved.append(side * side * 16 / (time.perf_counter() - start) / 1e9)
            bench.add("transport", tls=secure, transport=way, gb_per_second=moved)


def files(bench: Bench) -> None:
    """Multiply from file to file."""
    import zarr

    n, tile = bench.size(16_384), bench.size(4096)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        rng = np.random.default_rng(1)
        for name in "AB":
            path = os.path.join(folder, f"{name}.zarr")
            stored = zarr.create_array(
                path, shape=(n, n), chunks=(tile, tile), dtype="c16", compressors=None
            )
            for row in range(0, n, tile):
                stored[row : row + tile] = rng.standard_normal((tile, 2 * n)).view(
                    "c16"
                )
        given = [os.path.join(folder, f"{x}.zarr") for x in "ABC"]
        found = []
        for _ in range(2):
            start = time.perf_counter()
            engine = {"engine": "cpu" if bench.cpu else "cuda"}
            td.multiply_files(*given, overwrite=True, **engine)
            found.append(time.perf_counter() - start)
    bench.add("files", n=n, seconds=found, tflops=bench.rate("gemm", 16_384, found))


def streams(bench: Bench) -> None:
    """Compare the bits of many products of two threads with little cache."""
    n, tile = 1536, 256
    rng = np.random.default_rng(3)
    host = rng.standard_normal((n, 2 * n)).view("c16")
    expected = td.gemm(host, host, num_moduli=16)
    move = (lambda x: x) if bench.cpu else __import__("cupy").asarray
    changed = {"twom-dist.cache-bytes": "8 MiB", "twom-dist.panel-bytes": 1}
    differ, meta = 0, bench.draw(0, 0, 0)
    with dask.config.set(changed):
        for _ in range(PRODUCTS):
            x = da.from_array(host, chunks=tile).map_blocks(move, meta=meta)
            lazy = td.gemm(x, x, num_moduli=16)
            found = lazy.compute(scheduler="threads", num_workers=2)
            found = found if bench.cpu else found.get()
            differ += found.tobytes() != expected.tobytes()
    bench.add("streams", products=PRODUCTS, differ=differ)


PARTS = {
    "copies": copies,
    "gaps": gaps,
    "products": products,
    "settings": settings,
    "pool": pool,
    "transport": transport,
    "files": files,
    "streams": streams,
}


def main() -> None:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--engine", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--output", help="append JSON lines to this file")
    args = parser.parse_args()
    bench = Bench(args)
    for part in args.parts.split(","):
        start = time.perf_counter()
        PARTS[part](bench)
        print(f"{part}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
