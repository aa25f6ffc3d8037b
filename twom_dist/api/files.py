"""Products and updates of matrices in files: multiply_files and rank_k_files."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from ..errors import ArgumentError, PlanError
from ..interop.disk_arrays import find_path, is_on_disk
from ..jobs import JobSummary, check_call, open_job, run_job
from ..jobs.driver import Report
from ..jobs.job import Path
from ..problem.arguments import name_routine
from ..problem.call import Call
from ..tiles.routine import ROUTINES
from .gemm import gemm
from .routine import ask


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
    """Compute ``alpha op(A) op(B) + beta C`` of stored matrices into a new file.

    Parameters
    ----------
    a, b : str or os.PathLike, or array of zarr or h5py
        Matrices in .zarr, .npy, .npz or HDF5 files, or members of these: "data.h5::A".
        All workers must see the same files under these paths. They must not change
        during the job. Arrays of zarr and h5py are read by their paths, so they must be
        on disk, or at a URL, and h5py's files open with mode "r".
    output : str or os.PathLike
        The file to write, in one of the same formats; "data.h5::C" names the member of
        a container (default: "matrix"), which is added to an HDF5 file that exists.
        Never the file of an input. An existing output is
        unchanged until the new one is complete. If the job is stopped, the same job
        continues it from the tiles that are on disk.
    c : optional
        As a: the matrix C, given with beta. It is not read if beta is 0.
    routine : function
        `gemm` (default), a BLAS-typed name of it, or ``integers.gemm``, also of pairs.
    client : distributed.Client, optional
        Default: the current client. Without a client, threads of this process compute.
    chunks : int, optional
        Side of the tiles that are read, computed and written, and of the chunks of zarr
        and HDF5 outputs. Default: chosen for the workers. A stored chunk is read whole
        for every tile that has a part of it: give a multiple of its side. A job that is
        continued keeps its tiles, unless with overwrite.
    overwrite : bool
        Whether to replace a matrix at `output`, and to start anew where the job was
        stopped before. Of an HDF5 file a named member alone is replaced; another
        container that holds other arrays never is.
    refuse_missing : bool
        Whether to refuse inputs that lack chunks, which zarr and HDF5 read as the fill
        value.
        By default they are counted, and only an array without any chunk is refused.
    progress : callable, optional
        Called with a `Progress` after every tile that has been written.
    **options
        op_a, op_b, alpha, beta, accuracy, num_moduli, method, equilibrate: as in the
        routine; engine: "auto" (default), "cpu", "cuda" or "reference" (for
        comparison). "auto" is "cuda" if every worker has a GPU of its own, and "cpu" if
        none has. Unless the moduli are given, all inputs are looked at first: read two
        or three times more, if one wave does not hold them.

    Returns
    -------
    JobSummary
        Shapes, method, time and speed. The result has the bits that `gemm` gives for
        the same matrices in memory, but for a native product.

    Raises
    ------
    StoreError
        If a file cannot be read or written, the disk is full, the output exists or is
        another job's, an input changes, or workers do not see the files, have other
        versions of twom_dist, dask or Python, or are gone.
    ArgumentError, PlanError, AccuracyError
        As `gemm` does; ArgumentError also for an asynchronous client.
    EngineUnavailableError
        If only some workers have a GPU, or if "cuda" is asked for and none has.
    MemoryLimitError
        If not even one tile fits into the memory of a worker.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> import twom_dist as td
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
    """Compute a rank-k or rank-2k update of stored matrices into a new file.

    Parameters
    ----------
    routine : function
        `herk`, `syrk`, `her2k`, `syr2k`, a BLAS-typed name such as `zherk`, or one of
        ``integers``, of pairs as well: (rows, columns, 2) in the file.
    a, output : str or os.PathLike, and for a an array of zarr or h5py
        As in `multiply_files`.
    b : optional
        As a: the matrix B of her2k and syr2k.
    c, client, chunks, overwrite, refuse_missing, progress : optional
        As in `multiply_files`.
    **options
        As in the routine, but for out; engine as in `multiply_files`. Of a result with
        uplo "lower" or "upper" the other triangle is neither computed nor written, and
        reads as zeros.

    Returns
    -------
    JobSummary
        Shapes, method, time and speed. The result has the bits that the routine gives
        for the same matrices in memory, but for a native product.

    Raises
    ------
    TwomError
        As `multiply_files` and the routine do.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> import twom_dist as td
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
    other = rank_k_files if job is multiply_files else multiply_files
    if hasattr(routine, "ask"):
        name = name_routine(routine)
        fits = name.endswith("gemm") == (job is multiply_files)
        if not (fits and name.endswith((*ROUTINES,))):
            remedy = f"Give td.gemm, or an update, or call td.{other.__name__}"
            problem = f"{job.__name__} does not make {name}"
            raise PlanError(problem, remedy, "routine")
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
        a, routine = bound["a"], bound.get("routine", gemm)
    except (TypeError, KeyError) as error:
        problem = f"{function.__name__} does not take these arguments: {error}"
        remedy = "Give those of the job; only the output may be left out"
        raise ArgumentError(problem, remedy, "arguments") from None
    matrices = {"A": a, "B": bound.get("b"), "C": bound.get("c")}
    call = _ask(function, routine, bound.get("options", {}), **matrices)
    check_call(call)
    arrays = call.arrays()
    for name in matrices:
        if is_on_disk(arrays[name]):
            arrays[name] = find_path(arrays[name], name)
    return call.with_arrays(arrays)
