"""The driver of stored matrices: check, lay out, compute, write."""

from typing import Any

from ..execute import current_client, current_cluster
from .job import Path, Report, open_job
from .layout import local_cluster_of
from .report import JobSummary


def multiply_files(
    a: Path,
    b: Path,
    output: Path,
    *,
    client: Any = None,
    tile: int | None = None,
    overwrite: bool = False,
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
        there is what was there before.
    client : distributed.Client, optional
        Default: the current client; without one, threads of this process.
    tile : int, optional
        Side of the tiles that are read, computed and written; chosen where left out.
        Zarr and HDF5 outputs are chunked by it.
    overwrite : bool
        Whether a matrix at `output` may be replaced.
    op_a, op_b : {"N", "T", "C"}
        As in `gemm`.
    alpha, beta : number
        As in `gemm`.
    c : str or os.PathLike, optional
        The matrix C; not read where beta is 0.
    progress : callable, optional
        Called with a `Progress` for every tile that has been written.
    **options
        accuracy, num_moduli, method, scaling, engine: as in `gemm`.

    Returns
    -------
    JobSummary
        Shapes, method, time and speed. The result has the bits that `gemm` gives for
        the same matrices in memory.

    Raises
    ------
    StoreError
        For files that cannot be read or written, an output that exists, a full disk,
        workers that do not see the files.
    TypeError, PlanError, AccuracyError
        As `gemm` does.
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
    from dask.system import CPU_COUNT

    client = current_client() if client is None else client
    if client is not None and client.asynchronous:
        raise TypeError(
            "an asynchronous client was given; multiply_files waits for its result: "
            "give a client made without asynchronous=True"
        )
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
    if client is None:
        cluster = local_cluster_of(CPU_COUNT)
    else:
        with client.as_current():
            cluster = current_cluster()
    layout = job.lay_out(cluster, tile)
    writer = job.create_output(layout)
    if client is not None:
        try:
            job.check_workers(writer, client)
        except BaseException:
            writer.discard()
            raise
    return job.run(layout, writer, client, threads=cluster.threads, progress=progress)
