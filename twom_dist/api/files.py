"""Products of matrices in files: multiply_files and rank_k_files."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from ..errors import ArgumentError, PlanError
from ..jobs import JobSummary, check_call, open_job, run_job
from ..jobs.driver import Report
from ..jobs.job import Path
from ..problem.arguments import checked, name_routine
from ..problem.call import Call
from ..problem.problem import check_matrices
from ..tiles.routine import ROUTINES
from .gemm import gemm
from .routine import ask


@checked
def multiply_files(
    a: Any,
    b: Any,
    output: Path,
    *,
    c: Any = None,
    routine: Any = gemm,
    client: Any = None,
    chunks: int | None = None,
    overwrite: bool = False,
    refuse_missing: bool = False,
    progress: Report | None = None,
    **options: Any,
) -> JobSummary:
    """Compute ``alpha op(A) op(B) + beta C`` of matrices in files, tile by tile.

    Parameters
    ----------
    a, b : str or os.PathLike
        Matrices A and B in .zarr, .npy, .npz or HDF5 files, or members of these:
        "data.h5::A". All workers must see these files under the same paths, and the
        files must not change.
    output : str or os.PathLike
        The file to write, in one of the same formats; "data.h5::C" names the member of
        a container (default: "matrix"), which is added to an HDF5 file that exists. It
        must not be the file of an input. An existing output stays unchanged until the
        new one is complete.
    c : optional
        Matrix C, like a; requires beta, and is not read if beta is 0.
    routine : function, optional
        `gemm` (default), a BLAS-typed name of it, or ``integers.gemm``, also of pairs.
    client : distributed.Client, optional
        Default: the current client. Without one, threads of this process compute.
    chunks : int, optional
        Side of the tiles that are read, computed and written, and of the chunks of zarr
        and HDF5 outputs. Default: chosen for the workers. A stored chunk is read whole
        for every tile that overlaps it, so give a multiple of its side.
    overwrite : bool, optional
        Replace a matrix at `output`, and start again if the job was stopped before. In
        an HDF5 file only the named member is replaced; any other container with other
        arrays is never replaced.
    refuse_missing : bool, optional
        Refuse inputs that lack chunks, which zarr and HDF5 read as the fill value.
        Default: they are counted, and only an array without any chunk is refused.
    progress : callable, optional
        Called with a `Progress` after every tile that has been written.
    **options
        As in the routine, except out. engine: "auto" (default) is "cuda" if every
        worker has its own GPU, and "cpu" if none has.

    Returns
    -------
    JobSummary
        Shapes, method, time and speed.

    Raises
    ------
    StoreError
        If a file cannot be read or written, the disk is full, the output exists or is
        another job's, an input changes, or workers do not see the files, have other
        versions of twom_dist, dask or Python, or are gone.
    ArgumentError, PlanError, AccuracyError
        As the routine does; ArgumentError also for an asynchronous client.
    EngineUnavailableError
        If only some workers have a GPU, or if "cuda" is requested and none has.
    MemoryLimitError
        If not even one tile fits into the memory of a worker.

    See Also
    --------
    rank_k_files : Hermitian and symmetric results, for half the work.
    gemm : The same for arrays; describes all options.
    plan : The cost of the job, given this function and its arguments.

    Notes
    -----
    The result has the bits of the routine for the same matrices in memory, except where
    NumPy or CuPy multiplies. If a job is stopped, the same call continues it with the
    tiles on disk, and keeps their size. Unless the moduli are given, the data are
    checked first, which reads inputs two or three times more if the workers cannot hold
    them.

    Examples
    --------
    >>> import numpy as np, os, tempfile, twom_dist as td
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     a, c = (os.path.join(folder, name) for name in ("A.npy", "C.npy"))
    ...     np.save(a, np.array([[1 + 2j, 3], [0, 1j]]))
    ...     summary = td.multiply_files(a, a, c, op_b="C")
    ...     print(summary.tiles, np.load(c)[0])
    (1, 1, 1) [14.+0.j  0.-3.j]
    """
    call = _ask(multiply_files, routine, options, A=a, B=b, C=c)
    job = open_job(call, output, overwrite=overwrite, refuse_missing=refuse_missing)
    return run_job(job, client, chunks, progress)


@checked
def rank_k_files(
    routine: Any,
    a: Any,
    output: Path,
    *,
    b: Any = None,
    c: Any = None,
    client: Any = None,
    chunks: int | None = None,
    overwrite: bool = False,
    refuse_missing: bool = False,
    progress: Report | None = None,
    **options: Any,
) -> JobSummary:
    """Compute a rank-k or rank-2k product, such as ``A A^H``, of matrices in files.

    Parameters
    ----------
    routine : function
        `herk`, `syrk`, `her2k`, `syr2k`, a BLAS-typed name such as `zherk`, or a
        routine of ``integers``, also for pairs, stored as (rows, columns, 2).
    a, output : str or os.PathLike
        As in `multiply_files`.
    b : optional
        Matrix B of her2k and syr2k, like a.
    c, client, chunks, overwrite, refuse_missing, progress : optional
        As in `multiply_files`.
    **options
        As in the routine, except out; engine as in `multiply_files`. With uplo "lower"
        or "upper" the other triangle is neither computed nor written, and reads as
        zeros.

    Returns
    -------
    JobSummary
        Shapes, method, time and speed.

    See Also
    --------
    multiply_files : Products of two matrices; says what a stopped job does.
    herk, syrk, her2k, syr2k : The same for arrays.

    Examples
    --------
    >>> import numpy as np, os, tempfile, twom_dist as td
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     a, c = (os.path.join(folder, name) for name in ("A.npy", "C.npy"))
    ...     np.save(a, np.array([[1 + 2j, 3], [0, 1j]]))
    ...     summary = td.rank_k_files(td.herk, a, c, uplo="lower")
    ...     print(summary.tiles, np.load(c)[1])
    (1, 1, 1) [0.+3.j 1.+0.j]
    """
    call = _ask(rank_k_files, routine, options, A=a, B=b, C=c)
    job = open_job(call, output, overwrite=overwrite, refuse_missing=refuse_missing)
    return run_job(job, client, chunks, progress)


def _ask(job: Any, routine: Any, options: Mapping[str, Any], **matrices: Any) -> Call:
    """Return the call of a routine that a job makes; else name the other job."""
    if hasattr(routine, "ask"):
        name = name_routine(routine)
        fits = name.endswith("gemm") == (job is multiply_files)
        own = next((y for x, y in ROUTINES.items() if name.endswith(x)), None)
        if not fits or own is None:
            remedy = "Give multiply_files td.gemm, and rank_k_files td.herk or the like"
            problem = f"{job.__name__} does not compute {name}"
            raise PlanError(problem, remedy, "routine")
        check_matrices(own, matrices["A"], matrices["B"])
    given = {name: path for name, path in matrices.items() if path is not None}
    return ask(routine, (), {**given, **options}, job)


# Options of a run, which plans and explanations of its job take and do without.
_OF_RUN = "client", "chunks", "overwrite", "refuse_missing", "progress"


def ask_job(
    function: Any, given: tuple[Any, ...], options: Mapping[str, Any]
) -> Call | None:
    """Return the call of the job of multiply_files or rank_k_files; else None.

    The output may be left out.
    """
    # Not by `in`, which asks an array whether it is equal.
    if function is not multiply_files and function is not rank_k_files:
        return None
    options = {name: x for name, x in options.items() if name not in _OF_RUN}
    try:
        bound = signature(function).bind_partial(*given, **options).arguments
    except TypeError as error:
        problem = f"{function.__name__} does not take these: {error}"
        raise ArgumentError(problem, "Give the job's arguments", "arguments") from None
    matrices = {x.upper(): bound.get(x) for x in "abc"}
    more = bound.get("options", {})
    call = _ask(function, bound.get("routine", gemm), more, **matrices)
    check_call(call)
    return call
