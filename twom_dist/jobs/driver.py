"""The drivers of stored matrices: check, lay out, compute, write."""

from collections.abc import Callable
from contextlib import nullcontext
from time import perf_counter
from typing import Any

from ..errors import ArgumentError
from ..execute import current_client, current_cluster
from .arrays import make_tiles
from .job import Job, Path
from .layout import Layout, local_cluster_of
from .opening import open_job, open_update
from .report import JobSummary, Progress, count_operations
from .run import Run, begin
from .running import compute_wave, stopping_writes

Report = Callable[[Progress], None]


def multiply_files(
    a: Path,
    b: Path,
    output: Path,
    *,
    client: Any = None,
    tile: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    op_a: str = "N",
    op_b: str = "N",
    alpha: complex = 1,
    beta: complex = 0,
    c: Path | None = None,
    progress: Report | None = None,
    **options: Any,
) -> JobSummary:
    """Compute ``alpha op(A) op(B) + beta C`` of stored matrices into a new file.

    Matrices larger than the memory of the workers are multiplied in waves.

    Parameters
    ----------
    a, b : str or os.PathLike
        Matrices that `twom_dist.store.open_matrix` reads, such as "A.zarr" or
        "data.h5::A". All workers must see them under these paths.
    output : str or os.PathLike
        The file to make, as in `twom_dist.store.create_matrix`; never one of the
        inputs. It appears when it is whole: after an error, an interrupt or a kill
        there is what was there before, and, hidden beside it, what `resume` continues.
    client : distributed.Client, optional
        Default: the current client; without one, threads of this process.
    tile : int, optional
        Side of the tiles that are read, computed and written; chosen where left out.
        Zarr and HDF5 outputs are chunked by it.
    overwrite : bool
        Whether a matrix at `output` may be replaced, once the new one is whole, and
        what an earlier run has left unfinished be discarded, when the work begins.
        One that lacks only its place is refused: `resume` gives it that. So is a
        container that holds other arrays.
    resume : bool
        Whether to continue what an earlier run of the same job has left, also with
        `overwrite`; with neither of them such a leftover is refused. Where there is
        none, the job starts.
    op_a, op_b : {"N", "T", "C"}
        As in `gemm`.
    alpha, beta : number
        As in `gemm`.
    c : str or os.PathLike, optional
        The matrix C; not read where beta is 0.
    progress : callable, optional
        Called with a `Progress` for every tile that has been written.
    **options
        accuracy, num_moduli, method, scaling: as in `gemm`; engine: "auto" (default),
        "cpu", "cuda" or "reference". "auto" is "cuda" where every worker has a GPU of
        its own, and "cpu" where none has.

    Returns
    -------
    JobSummary
        Shapes, method, time and speed. The result has the bits that `gemm` gives for
        the same matrices in memory.

    Raises
    ------
    StoreError
        For files that cannot be read or written, an output that exists, or is
        unfinished and may not be continued, a full disk, workers that do not see the
        files, have other versions of twom_dist, dask or Python, or are gone.
    TypeError, PlanError, AccuracyError
        As `gemm` does.
    EngineUnavailableError
        Where only some workers have a GPU; with "cuda", where none has.
    MemoryLimitError
        Where not even one tile fits a worker.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from twom_dist.jobs import multiply_files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     a, c = (os.path.join(folder, name) for name in ("A.npy", "C.npy"))
    ...     np.save(a, np.array([[1 + 2j, 3], [0, 1j]]))
    ...     summary = multiply_files(a, a, c, op_b="C")
    ...     print(summary.tiles, np.load(c)[0])
    (1, 1, 1) [14.+0.j  0.-3.j]
    """
    job = open_job(
        a,
        b,
        output,
        overwrite=overwrite,
        op_a=op_a,
        op_b=op_b,
        alpha=alpha,
        beta=beta,
        c=c,
        **options,
    )
    return run_job(job, client, tile=tile, resume=resume, progress=progress)


def update_files(
    routine: str,
    a: Path,
    output: Path,
    b: Path | None = None,
    *,
    client: Any = None,
    tile: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    op: str = "N",
    uplo: str = "full",
    alpha: complex = 1,
    beta: complex = 0,
    c: Path | None = None,
    progress: Report | None = None,
    **options: Any,
) -> JobSummary:
    """Compute a rank-k or rank-2k update of stored matrices into a new file.

    Parameters
    ----------
    routine : {"herk", "syrk", "her2k", "syr2k"}
        The formula; see `twom_dist.herk` and the others.
    a, output : str or os.PathLike
        As in `multiply_files`.
    b : str or os.PathLike, optional
        The matrix B of her2k and syr2k.
    client : distributed.Client, optional
        As in `multiply_files`, like the next two.
    tile : int, optional
    overwrite : bool
    resume : bool
        As in `multiply_files`.
    op : {"N", "C"} or {"N", "T"}
        As in the routine.
    uplo : {"full", "lower", "upper"}
        The whole matrix (default), or one triangle: of the other one nothing is
        computed, moved or written, and it reads as zeros.
    alpha, beta : number
        As in the routine.
    c : str or os.PathLike, optional
        As in `multiply_files`, like the next one.
    progress : callable, optional
    **options
        accuracy, num_moduli, method, scaling: as in the routine; engine: as in
        `multiply_files`.

    Returns
    -------
    JobSummary
        Shapes, method, time and speed. The result has the bits that the routine gives
        for the same matrices in memory.

    Raises
    ------
    StoreError, TypeError, PlanError, AccuracyError, MemoryLimitError
        As `multiply_files` and the routine do.
    EngineUnavailableError
        As `multiply_files` does.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from twom_dist.jobs import update_files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     a, c = (os.path.join(folder, name) for name in ("A.npy", "C.npy"))
    ...     np.save(a, np.array([[1 + 2j, 3], [0, 1j]]))
    ...     summary = update_files("herk", a, c, uplo="lower")
    ...     print(summary.tiles, np.load(c)[1])
    (1, 1, 1) [0.+3.j 1.+0.j]
    """
    job = open_update(
        routine,
        a,
        output,
        b,
        overwrite=overwrite,
        op=op,
        uplo=uplo,
        alpha=alpha,
        beta=beta,
        c=c,
        **options,
    )
    return run_job(job, client, tile=tile, resume=resume, progress=progress)


def run_job(
    job: Job,
    client: Any = None,
    *,
    tile: int | None = None,
    resume: bool = False,
    progress: Report | None = None,
) -> JobSummary:
    """Lay a job out, start its output or take it up, compute and write.

    Parameters
    ----------
    job : Job
    client : distributed.Client, optional
        Default: the current client; without one, threads of this process.
    tile, resume, progress
        As in `multiply_files`.

    Returns
    -------
    JobSummary
    """
    from dask.system import CPU_COUNT

    client = current_client() if client is None else client
    if client is None:
        return compute(
            begin(job, local_cluster_of(CPU_COUNT), tile, resume=resume),
            progress=progress,
        )
    if client.asynchronous:
        raise ArgumentError(
            "an asynchronous client was given, and jobs wait for their result",
            "Give a client made without asynchronous=True",
            "asynchronous-client",
        )
    with client.as_current():
        cluster = current_cluster()
    run = begin(job, cluster, tile, resume=resume, client=client)
    return compute(run, client, progress)


def compute(run: Run, client: Any = None, progress: Report | None = None) -> JobSummary:
    """Compute and write every tile of a run, then give the output its name.

    Parameters
    ----------
    run : Run
        Of `begin`.
    client : distributed.Client, optional
        None computes with threads of this process.
    progress : callable, optional
        Called with a `Progress` for every tile that has been written.

    Returns
    -------
    JobSummary
        Shapes, method, time and speed.

    Raises
    ------
    StoreError
        A file cannot be read or written, an input has changed, or the workers are
        gone. After this and any other error, and after an interrupt, the output is
        what it was; tiles that have been recorded are kept beside it.
    """
    start = perf_counter()
    job, layout, writer = run.job, run.layout, run.writer
    meter = _Meter(job, layout, start, progress, len(run.finished))

    def done(i: int, j: int) -> None:
        run.recorder.add(i, j)
        meter.count(i, j)

    context = nullcontext() if client is None else client.as_current()
    with run, stopping_writes(writer, client), context:
        for wave in layout.waves:
            cells = run.cells_of(wave)
            if cells:
                tiles = make_tiles(job, layout, wave, cells)
                compute_wave(tiles, writer, client, run.threads, done, job.mirror)
        run.recorder.settle()
    system = job.system
    return JobSummary(
        path=writer.path,
        routine=job.routine,
        shape=job.shape,
        dtype=job.dtype,
        tiles=layout.tiles,
        tile_shape=layout.tile_shape,
        waves=len(layout.waves),
        method="native" if system is None else system.method,
        num_moduli=0 if system is None else system.num_moduli,
        engine=job.engine,
        seconds=perf_counter() - start,
        resumed=len(run.finished),
        discarded=run.num_discarded,
        operations=meter.operations,
    )


class _Meter:
    """Counts the tiles that have been computed and written."""

    def __init__(
        self, job: Job, layout: Layout, start: float, report: Report | None, done: int
    ) -> None:
        self._job, self._layout = job, layout
        self._start, self._report = start, report
        self._done, self._total, self.operations = done, layout.num_computed, 0

    def count(self, i: int, j: int) -> None:
        """Count tile (i, j)."""
        (m, n, k), (mb, nb, _) = self._layout.shape, self._layout.tile_shape
        rows, columns = min(mb, m - i * mb), min(nb, n - j * nb)
        routine = self._job.routine
        operations = count_operations(rows, columns, k, self._job.dtype, routine)
        # An update is done with both triangles, a product with one tile.
        self.operations += operations * (1 if routine == "gemm" or i == j else 2)
        self._done += 1
        if self._report is not None:
            seconds = perf_counter() - self._start
            self._report(Progress(self._done, self._total, self.operations, seconds))
