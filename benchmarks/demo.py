"""``make demo``: multiply two stored matrices on this machine, and check the result."""

import logging
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import thread_time
from timeit import repeat

import click
import numpy as np
import zarr
from threadpoolctl import threadpool_limits

import twom_dist as td
from benchmarks.harness import interleave
from twom_dist.cli.failures import SentenceGroup, begin_work
from twom_dist.cli.options import COUNT, DEBUG_OPTION, option
from twom_dist.cli.progress import Bar
from twom_dist.errors import PlanError
from twom_dist.jobs.reports import count_operations
from twom_dist.store import open_matrix
from twom_dist.testing import random_matrix
from twom_dist.workers.devices import count_gpus

FOLDER = Path("demo-output")
# There while the kernel's module for NVIDIA GPUs is loaded.
DRIVER = Path("/proc/driver/nvidia/version")
SEED = 2026
SIZE = 2048
# Rows and columns of the matrices that NumPy multiplies, too.
IN_MEMORY = 1024
# Rows of the random matrices that are drawn at once.
ROWS = 256

_OPTIONS = [
    option("--a", str, "File of the left matrix [default: a random one]."),
    option("--b", str, "File of the right matrix [default: a random one]."),
    option("--size", COUNT, f"Sides of the random matrices [default: {SIZE}]."),
    option("--n-workers", COUNT, "Worker processes [default: for this machine]."),
    DEBUG_OPTION,
]


@click.group(cls=SentenceGroup, params=_OPTIONS, invoke_without_command=True)
def main(a: str | None, b: str | None, size: int | None, n_workers: int | None) -> None:
    """Multiply two stored matrices on a local dask cluster, and check the result.

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
        client = stack.enter_context(
            td.local_cluster(n_workers=n_workers, silence_logs=level)
        )
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
    plan = td.plan(td.gemm, A.shape, B.shape, dtype=summary.dtype)
    if summary.engine == "cpu":
        rate = measure_speedup(plan.dtype)
        click.echo(compare(plan, rate, *time_in_memory(plan.dtype)))


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


def measure_speedup(dtype: str) -> float:
    """Divide the rate of int8 products on one core by that of NumPy's products."""
    from twom_dist.kernels import get_engine
    from twom_dist.kernels.cpu.threads import limit_threads
    from twom_dist.moduli import residue_system

    n, count, engine = 1024, 4, get_engine("cpu")
    x = td.testing.random_matrix(n, n, dtype=dtype)
    system = residue_system("real", count)
    planes = engine.encode(x.real, np.zeros(n, np.int32), system)
    calls = (lambda: x @ x, lambda: engine.multiply(planes, planes, system))
    with threadpool_limits(1, "blas"), limit_threads(1):
        native, int8 = (min(repeat(f, timer=thread_time, number=1)) for f in calls)
    operations = 2 * n**3 * count
    return native / int8 * (operations / count_operations(n, n, n, dtype))


def time_in_memory(dtype: str) -> tuple[float, float]:
    """Time our product in memory and NumPy's in turns; return the best seconds."""
    x = td.testing.random_matrix(IN_MEMORY, IN_MEMORY, dtype=dtype)
    candidates = {"ours": lambda: td.gemm(x, x), "native": lambda: x @ x}
    seconds = interleave(candidates, 5)
    return min(seconds["ours"]), min(seconds["native"])


def compare(plan: td.Plan, speedup: float, ours: float, native: float) -> str:
    """Say whether int8 beats NumPy's product on this machine, and why."""
    more = plan.int8_operations / count_operations(*plan.shape, plan.dtype)
    vnni = "with" if "vnni" in Path("/proc/cpuinfo").read_text() else "without"
    # Between these bounds the difference is noise.
    verdict = "faster than" if ours < 0.9 * native else "as fast as"
    if ours > 1.1 * native:
        verdict = "slower than"
    return (
        f"On this machine it is {verdict} NumPy: the product of two {IN_MEMORY} x "
        f"{IN_MEMORY} arrays takes {ours:.2g} s, and {native:.2g} s with NumPy. Here, "
        f"{vnni} VNNI, int8 is {speedup:.1f} times as fast as {plan.dtype}, but there "
        f"are {more:.1f} times as many multiplications to do."
    )


if __name__ == "__main__":
    main()
