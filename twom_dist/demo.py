"""``make demo``: multiply two matrices on this machine; see how long and how exact."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import click
import numpy as np

from .accuracy import error_bound
from .blas import gemm
from .cli.bar import progress_bar
from .cli.failures import SentenceCommand, refusing
from .cli.options import debug_option
from .cli.workers import choose_local_workers, quiet_logs, start_workers
from .errors import KernelError, PlanError
from .jobs import Job, JobSummary, multiply_files, open_job
from .jobs.report import count_operations, gflops
from .store import create_matrix, open_matrix

FOLDER = Path("demo-output")
SEED = 2026
# Rows that are read at once.
_ROWS = 256
# A second round of products is left out where the first takes longer.
_PATIENCE_SECONDS = 15.0


@dataclass(frozen=True)
class Residual:
    """The largest ``|C x - A (B x)|_i`` over its scale, and what it may be."""

    largest: float
    allowed: float


def _parse_count(value: Any) -> int:
    if not str(value).isdecimal() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is no positive whole number such as 3")
    return int(value)


@click.command(cls=SentenceCommand)
@click.option("--a", metavar="PATH", help="Left matrix (default: made up).")
@click.option("--b", metavar="PATH", help="Right matrix (default: made up).")
@click.option("--size", type=_parse_count, help="Of what is made up: 3072.")
@click.option("--workers", type=_parse_count, help="Default: one per core.")
@debug_option
def main(
    a: str | None, b: str | None, size: int | None, workers: int | None, debug: bool
) -> None:
    """Multiply two stored matrices on a local dask cluster, and check the result.

    Compares with NumPy's own product of the same matrices, and leaves the result in
    ./demo-output.
    """
    with ExitStack() as stack:
        stack.enter_context(quiet_logs(not debug))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with refusing():
            pair = _find_matrices(a, b, size, folder)
            FOLDER.mkdir(exist_ok=True)
            # Not for anybody's repository.
            (FOLDER / ".gitignore").write_text("*\n")
            output = str(FOLDER / "C.zarr")
            job = open_job(*pair, output, overwrite=True)
        local = choose_local_workers(workers, None, None, False)
        _warm_up_here(job.dtype)
        click.echo(f"Starting {local.workers} workers ...")
        client = stack.enter_context(start_workers(local, debug=debug))
        _warm_up_workers(client, job.dtype)
        rows = _compare(job, pair, output, client)
    width = max(len(name) for name, _ in rows)
    click.echo()
    for name, value in rows:
        click.echo(f"  {name:<{width}}  {value}")
    click.echo(f"\nThe result is in {FOLDER.resolve() / 'C.zarr'}")


def _find_matrices(
    a: str | None, b: str | None, size: int | None, folder: Path
) -> tuple[str, str]:
    """Return the paths of A and B, made up if need be."""
    if a is not None and b is not None and size is None:
        return a, b
    if a is not None or b is not None:
        raise PlanError(
            "the demo multiplies two matrices of yours or two of a size: give both "
            "A=file and B=file (--a and --b), or at most N=size (--size)"
        )
    n = 3072 if size is None else size
    click.echo(f"Writing two {n} x {n} complex128 matrices ...")
    generator = np.random.default_rng(SEED)
    for name in ("A.zarr", "B.zarr"):
        with create_matrix(folder / name, (n, n), "complex128", (_ROWS, n)) as out:
            for part in _row_parts(n):
                out[part, :] = _make_rows(generator, part.stop - part.start, n)
    return str(folder / "A.zarr"), str(folder / "B.zarr")


def _make_rows(generator: np.random.Generator, rows: int, columns: int) -> Any:
    """Entries (U - 1/2) exp(N): magnitudes over several powers of ten."""
    shape = (2, rows, columns)
    uniform = generator.random(shape) - 0.5
    real, imaginary = uniform * np.exp(generator.standard_normal(shape))
    return real + 1j * imaginary


def _row_parts(rows: int) -> Iterator[slice]:
    for start in range(0, rows, _ROWS):
        yield slice(start, min(start + _ROWS, rows))


def _warm_up_here(dtype: np.dtype[Any]) -> None:
    """Compile before the workers do: they find the kernels on disk."""
    click.echo("Loading the kernels (compiled once, which takes some seconds) ...")
    start = perf_counter()
    small = np.eye(64, dtype=dtype)
    gemm(small, small)
    click.echo(f"  ready after {perf_counter() - start:.1f} s")


def _warm_up_workers(client: Any, dtype: np.dtype[Any]) -> None:
    small = np.eye(64, dtype=dtype)
    client.gather(
        [
            client.submit(gemm, small, small, workers=[address], pure=False)
            for address in client.nthreads()
        ]
    )


def _compare(
    job: Job, pair: tuple[str, str], output: str, client: Any
) -> list[tuple[str, str]]:
    """Run ours and NumPy's in turn, check the result, and return the table."""
    numpy_pair = _load_for_numpy(job)
    theirs: list[float] = []
    ours: list[JobSummary] = []
    product = None

    def time_numpy() -> None:
        nonlocal product
        if numpy_pair is not None:
            start = perf_counter()
            with np.errstate(all="ignore"):
                product = numpy_pair[0] @ numpy_pair[1]
            theirs.append(perf_counter() - start)

    click.echo("Multiplying, in turn with NumPy ...")
    time_numpy()
    for _ in range(2):
        with progress_bar() as report:
            summary = multiply_files(
                *pair, output, client=client, overwrite=True, progress=report
            )
        ours.append(summary)
        time_numpy()
        if ours[-1].seconds > _PATIENCE_SECONDS:
            break
    click.echo("Checking C x = A (B x) for a random x ...")
    bound = error_bound(job.system, job.shape[2], job.dtype)
    found = _measure_residual(job, open_matrix(output), bound)
    numpy_found = None if product is None else _measure_residual(job, product, bound)
    rows = _make_table(job, ours, theirs, found, numpy_found)
    if found.largest > found.allowed:
        raise KernelError(
            f"the residual of the result is {found.largest:.2e}, above the "
            f"{found.allowed:.2e} that its error bound allows: do not use this "
            "installation, and report the output of `twom-dist info`"
        )
    return rows


def _load_for_numpy(job: Job) -> tuple[Any, Any] | None:
    """Read both matrices, if they leave room for NumPy's product."""
    from distributed.system import MEMORY_LIMIT

    m, n, k = job.shape
    needed_bytes = 2 * (m * k + k * n + m * n) * job.dtype.itemsize
    if needed_bytes > MEMORY_LIMIT // 2:
        click.echo("Leaving out NumPy's product: too large for this memory")
        return None
    a, b = (x[:, :].astype(job.dtype, copy=False) for x in (job.a, job.b))
    return a, b


# Entries that are not finite are told from the result.
@np.errstate(all="ignore")
def _measure_residual(job: Job, c: Any, bound: float) -> Residual:
    """Evaluate ``r = C x - A (B x)`` for random x_j = +-1 in long double.

    With ``|dC_ij| <= bound ||a_i|| ||b_j||`` and ``|x_j| = 1``,
    ``|r_i| <= sum_j |dC_ij| <= bound ||a_i|| S``, ``S = sum_j ||b_j||``.

    Sums of n terms in arithmetic of unit roundoff w are off by at most
    ``n w / (1 - n w)`` of the sum of magnitudes. B x and C x are n terms a row, A y is
    2k terms in each of two parts, and all their sums of magnitudes are at most
    ``||a_i|| S (1 + bound)``: evaluating r adds less than
    ``3 (n + k + 2) w ||a_i|| S``.
    """
    (m, n, k), a, b = job.shape, job.a, job.b
    wide = np.result_type(job.dtype, np.longdouble)
    signs = np.random.default_rng(SEED).choice([-1, 1], n).astype(np.longdouble)
    y = np.empty(k, wide)
    squares = np.zeros(n, np.longdouble)
    for part in _row_parts(k):
        block = b[part, :].astype(wide)
        y[part] = block @ signs
        squares += np.sum(_squares(block), axis=0)
    columns = np.sum(np.sqrt(squares))
    largest = np.longdouble(0)
    for part in _row_parts(m):
        block = a[part, :].astype(wide)
        scale = np.sqrt(np.sum(_squares(block), axis=1)) * columns
        residual = c[part, :].astype(wide) @ signs - block @ y
        # A row of zeros has no residual; NaN and Inf stay.
        ratios = np.abs(residual) / np.where(scale == 0, 1, scale)
        largest = np.maximum(largest, ratios.max(initial=0))
    if not np.isfinite(columns):
        largest = np.longdouble(np.nan)
    roundoff = float(np.finfo(np.longdouble).eps) / 2
    return Residual(float(largest), bound + 3 * (n + k + 2) * roundoff)


def _squares(x: Any) -> Any:
    return x.real**2 + x.imag**2


def _make_table(
    job: Job,
    ours: list[JobSummary],
    theirs: list[float],
    found: Residual,
    numpy_found: Residual | None,
) -> list[tuple[str, str]]:
    (m, n, k), summary = job.shape, ours[-1]
    operations = count_operations(m, n, k, job.dtype)
    seconds = median(run.seconds for run in ours)
    (mt, nt, kt), (mb, nb, _) = summary.tiles, summary.tile_shape
    rows = [
        ("size", f"{m} x {k} times {k} x {n}, {job.dtype}"),
        ("tiles", f"{mt} x {nt} of up to {mb} x {nb}; k in {kt}"),
        ("moduli", f"{summary.num_moduli} ({summary.method})"),
        ("seconds", f"{seconds:.2f}, files read and written"),
        ("effective GFLOP/s", f"{gflops(operations, seconds):.1f}"),
    ]
    if numpy_found is not None:
        native = median(theirs)
        speed = f"{gflops(operations, native):.1f} GFLOP/s in memory"
        rows += [
            ("NumPy, same run", f"{native:.2f} s, {speed}"),
            ("speed over NumPy's", f"{native / seconds:.2f}"),
        ]
    if not isfinite(found.largest):
        return [*rows, ("error", "not checked: there are entries that are not finite")]
    rows.append(
        (
            "|C x - A (B x)|",
            f"{found.largest:.1e} of |a_i| sum |b_j|, {found.allowed:.1e} allowed",
        )
    )
    if numpy_found is not None:
        rows.append(("NumPy's error", f"{numpy_found.largest:.1e}"))
    return rows


if __name__ == "__main__":
    main()
