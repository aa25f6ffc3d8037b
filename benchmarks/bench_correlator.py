"""Measure a correlator of 8-bit samples against NumPy's complex64, interleaved.

Samples lie as a telescope writes them, (time, antenna, channel, pair), in a zarr store
of chunks along time, and visibilities (channel, antenna, antenna) go to another one.
Two workers of one thread have 600 MiB each. ``block``: one chunk in memory, here.

    python benchmarks/bench_correlator.py --chunks 64
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from contextlib import chdir
from typing import Any

import dask.array as da
import numpy as np
import zarr
from distributed import Client, LocalCluster
from harness import Report, interleave, ratios

import twom_dist as td

TIMES, ANTENNAS, CHANNELS = 8192, 16, 64


def draw(seed: int) -> Any:
    """Draw a chunk of samples of 4 bits, in 8."""
    shape = TIMES, ANTENNAS, CHANNELS, 2
    return np.random.default_rng(seed).integers(-8, 8, shape, dtype=np.int8)


def correlate(samples: Any) -> Any:
    """Multiply samples, in memory or lazy, exactly."""
    return td.integers.herk(samples.transpose(2, 1, 0, 3), pairs=True)


def correlate_by_numpy(samples: Any) -> Any:
    """Multiply a chunk in single precision, as a program without this package would."""
    rows = np.ascontiguousarray(samples.transpose(2, 1, 0, 3))
    z = rows.astype(np.float32).view(np.complex64)[..., 0]
    return (z @ z.conj().swapaxes(1, 2))[np.newaxis]


def map_numpy(samples: Any) -> Any:
    """Multiply chunk by chunk by NumPy, and add."""
    chunks = (1,) * samples.numblocks[0], (CHANNELS,), (ANTENNAS,), (ANTENNAS,)
    found = samples.map_blocks(correlate_by_numpy, dtype=np.complex64, chunks=chunks)
    return found.sum(axis=0)


def main() -> None:
    """Time one chunk, then the store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", help="append JSON lines to this file")
    args = parser.parse_args()
    report, sample = Report(args.output), draw(0)
    seconds = interleave(
        {
            "numpy": lambda: correlate_by_numpy(sample),
            "integers.herk": lambda: correlate(sample),
        },
        args.repeats,
    )
    report.add("correlator-block", over_numpy=ratios(seconds, "numpy"), seconds=seconds)
    workers = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "600 MiB"}
    with (
        tempfile.TemporaryDirectory() as folder,
        chdir(folder),
        LocalCluster(dashboard_address=None, **workers) as cluster,
        Client(cluster),
    ):
        shape = args.chunks * TIMES, *sample.shape[1:]
        store = zarr.create_array(
            "samples.zarr", shape=shape, chunks=sample.shape, dtype="i1"
        )
        for i in range(args.chunks):
            store[i * TIMES : (i + 1) * TIMES] = draw(i)

        def write(function: Callable[[Any], Any]) -> None:
            found = function(da.from_zarr("samples.zarr"))
            found.to_zarr(f"{function.__name__}.zarr", overwrite=True)

        seconds = interleave(
            {
                "numpy": lambda: write(map_numpy),
                "integers.herk": lambda: write(correlate),
            },
            args.repeats,
        )
        lazy = correlate(da.from_zarr("samples.zarr"))
    report.add(
        "correlator",
        bytes=int(np.prod(shape)),
        chunks=lazy.chunks,
        tasks=len(lazy.dask),
        cores=os.cpu_count(),
        over_numpy=ratios(seconds, "numpy"),
        seconds=seconds,
    )


if __name__ == "__main__":
    main()
