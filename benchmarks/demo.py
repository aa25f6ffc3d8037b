"""``make demo``: multiply two stored matrices, and compare the times with NumPy."""

import logging
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import click
import dask.array as da
import numpy as np
import zarr
from threadpoolctl import threadpool_info

import twom_dist as td
from benchmarks.harness import interleave
from twom_dist.cli.failures import SentenceGroup, begin_work
from twom_dist.cli.options import COUNT, DEBUG_OPTION, option
from twom_dist.cli.progress import Bar
from twom_dist.errors import PlanError
from twom_dist.store import open_matrix
from twom_dist.testing import random_matrix
from twom_dist.workers.devices import count_gpus

FOLDER = Path("demo-output")
# There while the kernel's module for NVIDIA GPUs is loaded.
DRIVER = Path("/proc/driver/nvidia/version")
SEED = 2026
SIZE = 2048
# Rows and columns of the matrices that NumPy multiplies, too; four times on a GPU.
IN_MEMORY = 1024
# Rows of the random matrices that are drawn at once.
ROWS = 256

Call = Callable[[], object]
_OPTIONS = [
    option("--a", str, "File of the left matrix [default: a random one]."),
    option("--b", str, "File of the right matrix [default: a random one]."),
    option("--size", COUNT, f"Sides of the random matrices [default: {SIZE}]."),
    option("--n-workers", COUNT, "Worker processes [default: for this machine]."),
    DEBUG_OPTION,
]


@click.group(cls=SentenceGroup, params=_OPTIONS, invoke_without_command=True)
def main(a: str | None, b: str | None, size: int | None, n_workers: int | None) -> None:
    """Multiply two stored matrices on a local dask cluster, and compare with NumPy.

    The result is written to ./demo-output/C.zarr.
    """
    with ExitStack() as stack:
        if a is None and b is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            a, b = write_random(folder, size or SIZE)
        elif a is None or b is None or size is not None:
            raise PlanError(
                "the demo multiplies either two given matrices or two random ones",
                "Give both A=file and B=file (--a and --b), or at most N=size (--size)",
                "one-matrix",
            )
        A, B = open_matrix(a), open_matrix(b)
        td.plan(td.gemm, A.shape, B.shape)  # refuses shapes that do not fit
        # Otherwise each worker would compile the kernels, those as well that look at
        # entries of many magnitudes.
        td.gemm(*(random_matrix(64, 64, phi=2, dtype=x.dtype) for x in (A, B)))
        FOLDER.mkdir(exist_ok=True)
        # This file keeps the folder out of any repository.
        (FOLDER / ".gitignore").write_text("*\n")
        n_workers = choose_workers(n_workers)
        click.echo("Starting workers ...")
        # Workers shall be as quiet as this process.
        level = max(logging.WARNING, logging.root.manager.disable)
        cluster = td.local_cluster(n_workers=n_workers, silence_logs=level)
        client = stack.enter_context(cluster)
        click.echo("Multiplying ...")
        bar = stack.enter_context(Bar())
        begin_work()
        summary = td.multiply_files(
            *(a, b, FOLDER / "C.zarr"),
            client=client,
            overwrite=True,
            progress=bar.report,
        )
    click.echo(summary)
    show_products(summary.engine == "cuda")
    if summary.engine == "cpu":
        click.echo(tell_of_cpu())


def choose_workers(n_workers: int | None) -> int | None:
    """Say which GPUs there are, and choose workers that a job uses them with."""
    if not DRIVER.exists():
        return n_workers
    try:
        import cupy  # noqa: F401
    except ImportError:
        click.echo(
            "A GPU is here, but CuPy is not, so the cores multiply. Run "
            ".venv/bin/pip install '.[cuda13]', or '.[cuda12]', to use it."
        )
        return n_workers
    # dask-cuda gives each worker a GPU of its own; without it one takes the first.
    most = count_gpus()[0] or 1
    n_workers = n_workers or most
    if n_workers > most:
        click.echo(f"{n_workers} workers would share a GPU, so the cores multiply.")
    else:
        click.echo(f"Using {n_workers} of {most} GPUs ...")
    return n_workers


def write_random(folder: str, n: int) -> list[str]:
    """Write two random matrices, and return their paths."""
    click.echo(f"Writing two {n} x {n} complex128 matrices ...")
    paths = [f"{folder}/A.zarr", f"{folder}/B.zarr"]
    for index, path in enumerate(paths):
        out = zarr.create_array(
            path,
            shape=(n, n),
            dtype="complex128",
            chunks=(ROWS, n),
            compressors=None,  # random digits only cost time
        )
        for start in range(0, n, ROWS):
            rows = min(ROWS, n - start)
            seed = [SEED, index, start]
            out[start : start + rows] = td.testing.random_matrix(rows, n, seed=seed)
    return paths


def show_products(on_device: bool) -> None:
    """Time products beside those of the array library, in turns, and show both."""
    click.echo(f"{'':42}twom_dist    {'CuPy' if on_device else 'NumPy'}")
    for name, calls in list_products(on_device).items():
        seconds = interleave(dict(zip(("ours", "native"), calls, strict=True)), 5)
        ours, native = (median(seconds[x]) for x in ("ours", "native"))
        times = f"{ours:9.3f} s {native:8.3f} s"
        click.echo(f"{name:42}{times}   {native / ours:.2f} times as fast")


def list_products(on_device: bool) -> dict[str, tuple[Call, Call]]:
    """List products, ours and those of the array library, by what they compute."""
    n, xp, wait = IN_MEMORY, np, lambda x: x
    if on_device:
        import cupy as xp

        n, wait = 4 * n, lambda x: (x, xp.cuda.Device().synchronize())
    x = xp.asarray(random_matrix(n, n))
    # As many entries, in few long rows.
    shape, rng = (n // 4, 4 * n, 2), np.random.default_rng(SEED)
    of_samples = f"8-bit samples, {n // 4} x {4 * n}: A @ A.conj().T"
    samples = xp.asarray(rng.integers(-127, 128, shape, dtype=np.int8))
    single = samples.astype("f4").view("c8")[..., 0]

    def multiply() -> object:
        return wait(x @ x)

    return {
        f"{n} x {n}: A @ B, by default": (lambda: wait(td.gemm(x, x)), multiply),
        f"{n} x {n}: A @ B, 16 moduli": (
            lambda: wait(td.gemm(x, x, num_moduli=16)),
            multiply,
        ),
        f"{n} x {n}: A @ A.conj().T, 16 moduli": (
            lambda: wait(td.herk(x, num_moduli=16)),
            lambda: wait(x @ x.conj().T),
        ),
        of_samples: (
            lambda: wait(td.integers.herk(samples, pairs=True)),
            lambda: wait(single @ single.conj().T),
        ),
    }


def tell_of_cpu() -> str:
    """Say what multiplies here, and whether chunks change a bit."""
    from twom_dist.kernels.cpu.products.multiply import name_kernel

    x = random_matrix(500, 500)
    chunks = da.from_array(x, chunks=150)
    same = bool((td.gemm(chunks, x).compute(scheduler="sync") == td.gemm(x, x)).all())
    blas = {x.get("architecture") for x in threadpool_info()} - {None}
    of_blas = ", ".join(map(str, blas)) or "this CPU"
    return (
        f"int8 is multiplied by {name_kernel()}, and doubles by NumPy's BLAS for "
        f"{of_blas}; without VNNI or AMX int8 is slower. Samples are added exactly, "
        "and rounded by NumPy. In chunks of 150 x 150 a product has "
        f"{'the same' if same else 'OTHER'} bits. On busy cores NumPy's times mislead."
    )


if __name__ == "__main__":
    main()
