"""The drivers of stored matrices: check, lay out, compute, write."""

from typing import Any

from ..execute import current_client, current_cluster
from .attempt import begin
from .job import Job, Path, Report
from .layout import local_cluster_of
from .opening import open_job, open_update
from .report import JobSummary


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
    client = _find_client(client, "multiply_files")
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
    return _run(job, client, tile, progress, resume)


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
    client = _find_client(client, "update_files")
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
    return _run(job, client, tile, progress, resume)


def _find_client(client: Any, name: str) -> Any:
    """Return the client to use, None for this process."""
    client = current_client() if client is None else client
    if client is not None and client.asynchronous:
        raise TypeError(
            f"an asynchronous client was given; {name} waits for its result: "
            "give a client made without asynchronous=True"
        )
    return client


def _run(
    job: Job,
    client: Any,
    tile: int | None,
    progress: Report | None,
    resume: bool,
) -> JobSummary:
    """Lay out, start the output or take it up, compute and write."""
    from dask.system import CPU_COUNT

    if client is None:
        cluster = local_cluster_of(CPU_COUNT)
    else:
        with client.as_current():
            cluster = current_cluster()
    attempt = begin(job, cluster, tile, resume=resume, client=client)
    if client is not None:
        try:
            job.check_workers(attempt.writer, client)
        except BaseException:
            attempt.abandon()
            raise
    return job.run(attempt, client, progress=progress)
