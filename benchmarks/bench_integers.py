"""Measure exact products of integer pairs against NumPy's complex ones, interleaved.

Parts: ``exact``: ``X X^H`` of random pairs in memory, conversions included.
``correlator``: samples of 8 bits, as a telescope writes them, (time, antenna, channel,
pair), one chunk in memory, then many, from a zarr store to visibilities (channel,
antenna, antenna) in another, by two workers of one thread and 600 MiB each.

    python benchmarks/bench_integers.py --shapes 1024x4096 --chunks 64
"""

import os
import tempfile
from argparse import Namespace
from collections.abc import Callable
from contextlib import chdir
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import zarr

import twom_dist as td
from benchmarks.harness import Report, interleave, ratios, run, start_client

TIMES, ANTENNAS, CHANNELS = 8192, 16, 64


def bench_exact(report: Report, args: Namespace) -> None:
    """Time products of n x k pairs."""
    for shape in args.shapes:
        n, k = map(int, shape.split("x"))
        for dtype in args.dtypes:
            info, rng = np.iinfo(dtype), np.random.default_rng(0)
            given = {"dtype": dtype, "endpoint": True}
            pairs = rng.integers(info.min, info.max, (n, k, 2), **given)
            time_exact(report, pairs, args.repeats)


def time_exact(report: Report, pairs: np.ndarray, repeats: int) -> None:
    def convert(real: str, whole: str) -> Any:
        return pairs.astype(real).view(whole)[..., 0]

    def multiply(real: str, whole: str) -> Any:
        x = convert(real, whole)
        return x @ x.conj().T

    candidates: dict[str, Callable[[], Any]] = {
        "numpy complex64": lambda: multiply("f4", "c8"),
        "numpy complex128": lambda: multiply("f8", "c16"),
        "exact": lambda: td.integers.herk(pairs, pairs=True),
        "16 moduli": lambda: td.herk(convert("f8", "c16"), num_moduli=16),
    }
    equal = (candidates["numpy complex128"]() == candidates["exact"]()).all()
    seconds = interleave(candidates, repeats)
    given = {"dtype": str(pairs.dtype), "pairs": True}
    report.add(
        "exact",
        shape="{}x{}".format(*pairs.shape),
        dtype=str(pairs.dtype),
        num_moduli=td.plan(td.integers.herk, pairs.shape, **given).num_moduli,
        equal=bool(equal),
        over_complex64=ratios(seconds, "numpy complex64"),
        over_complex128=ratios(seconds, "numpy complex128"),
        seconds=seconds,
    )


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


def write(function: Callable[[Any], Any]) -> None:
    """Correlate the store."""
    found = function(da.from_zarr("samples.zarr"))
    found.to_zarr(f"{function.__name__}.zarr", overwrite=True)


def bench_correlator(report: Report, args: Namespace) -> None:
    """Time one chunk, then the store."""
    sample = draw(0)
    one = {"numpy": correlate_by_numpy, "integers.herk": correlate}
    seconds = interleave(
        {name: partial(x, sample) for name, x in one.items()}, args.repeats
    )
    report.add("correlator-block", over_numpy=ratios(seconds, "numpy"), seconds=seconds)
    with (
        tempfile.TemporaryDirectory() as folder,
        chdir(folder),
        start_client(2, memory_limit="600 MiB"),
    ):
        shape = args.chunks * TIMES, *sample.shape[1:]
        store = zarr.create_array(
            "samples.zarr", shape=shape, chunks=sample.shape, dtype="i1"
        )
        for i in range(args.chunks):
            store[i * TIMES : (i + 1) * TIMES] = draw(i)
        whole = one | {"numpy": map_numpy}
        seconds = interleave(
            {name: partial(write, x) for name, x in whole.items()}, args.repeats
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
    run(
        __doc__,
        bench_exact,
        bench_correlator,
        shapes=["1024x4096"],
        dtypes=["int8", "int16"],
        chunks=64,
        repeats=5,
    )
