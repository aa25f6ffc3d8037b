"""One product of stored matrices: its checks, its tiles, its run."""

import os
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from .. import checks
from ..blas import gemm
from ..errors import PlanError, StoreError
from ..kernels.registry import engine_of, get_engine
from ..moduli import ResidueSystem
from ..plan import Cluster
from ..store import MatrixWriter, StoredMatrix, create_matrix, open_matrix
from .layout import Layout, Wave, lay_out
from .report import JobSummary, Progress, count_operations
from .running import compute_wave, stopping_writes

Path = str | os.PathLike[str]
Report = Callable[[Progress], None]


@dataclass(frozen=True)
class Job:
    """A product of stored matrices whose inputs and options have been checked.

    Attributes
    ----------
    a, b, c : StoredMatrix
        c is None where beta is 0.
    output : str or os.PathLike
    overwrite : bool
    shape : tuple of int
        (m, n, k).
    dtype : numpy.dtype
        Of the result.
    system : ResidueSystem or None
        None for the native product.
    scalars : dict
        alpha, beta, op_a and op_b.
    options : dict
        The other arguments of `gemm`.
    """

    a: StoredMatrix
    b: StoredMatrix
    c: StoredMatrix | None
    output: Path
    overwrite: bool
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    system: ResidueSystem | None
    scalars: dict[str, Any]
    options: dict[str, Any]

    def lay_out(self, cluster: Cluster, tile: int | None = None) -> Layout:
        """Choose tiles and waves for a cluster; see `twom_dist.jobs.lay_out`."""
        beta = self.scalars["beta"]
        return lay_out(
            self.shape, self.dtype, cluster, tile=tile, beta=beta, **self.options
        )

    def create_output(self, layout: Layout) -> MatrixWriter:
        """Check the place of the output and start its temporary."""
        m, n, _ = self.shape
        mb, nb, _ = layout.tile_shape
        return create_matrix(
            self.output, (m, n), self.dtype, (mb, nb), overwrite=self.overwrite
        )

    def check_workers(self, writer: MatrixWriter, client: Any) -> None:
        """Refuse workers that do not see the files."""
        inputs = [x.path for x in (self.a, self.b, self.c) if x is not None]
        paths = [*inputs, writer.draft.temporary] if writer.concurrent else inputs
        for address, missing in client.run(_missing, paths).items():
            if missing:
                raise StoreError(
                    f"the worker at {address} does not find {missing[0]!r}; keep the "
                    "matrices on a file system that all workers share."
                )

    def run(
        self,
        layout: Layout,
        writer: MatrixWriter,
        client: Any = None,
        *,
        threads: int = 1,
        progress: Report | None = None,
    ) -> JobSummary:
        """Compute and write every tile, then give the output its name.

        Parameters
        ----------
        layout : Layout
        writer : MatrixWriter
            Of `create_output`; discarded after any error and after an interrupt.
        client : distributed.Client, optional
            None computes with threads of this process.
        threads : int
            Of this process, without a client.
        progress : callable, optional
            Called with a `Progress` for every tile that has been written.

        Returns
        -------
        JobSummary
            Shapes, method, time and speed.
        """
        start = perf_counter()
        system = self.system
        if client is None and system is not None:
            # Loads the kernels once, before several threads ask for them.
            get_engine(engine_of(self.options.get("engine", "auto")))
        meter = _Meter(layout, self.dtype, start, progress)
        context = nullcontext() if client is None else client.as_current()
        with writer, stopping_writes(writer, client), context:
            for wave in layout.waves:
                product = self._product(layout, wave)
                meter.start(wave)
                compute_wave(product, wave, writer, client, threads, meter.count)
        return JobSummary(
            path=writer.path,
            shape=self.shape,
            dtype=self.dtype,
            tiles=layout.tiles,
            tile_shape=layout.tile_shape,
            waves=len(layout.waves),
            method="native" if system is None else system.method,
            num_moduli=0 if system is None else system.num_moduli,
            seconds=perf_counter() - start,
        )

    def _product(self, layout: Layout, wave: Wave) -> Any:
        """Make the lazy product of a wave from the files."""
        mb, nb, kb = layout.tile_shape
        everything = slice(None)
        rows, columns = wave.rows, wave.columns
        a = _lazy(self.a, (mb, kb), (rows, everything), self.scalars["op_a"])
        b = _lazy(self.b, (kb, nb), (everything, columns), self.scalars["op_b"])
        c = None if self.c is None else _lazy(self.c, (mb, nb), (rows, columns), "N")
        return gemm(a, b, c, **self.scalars, **self.options)


class _Meter:
    """Counts the tiles that have been written."""

    def __init__(
        self, layout: Layout, dtype: Any, start: float, report: Report | None
    ) -> None:
        self._layout, self._dtype = layout, dtype
        self._start, self._report = start, report
        self._done = self._operations = 0
        self._first = (0, 0)

    def start(self, wave: Wave) -> None:
        """Begin a wave: the indices of `count` are relative to it."""
        self._first = (wave.rows.start, wave.columns.start)

    def count(self, i: int, j: int) -> None:
        """Count tile (i, j) of the wave."""
        (m, n, k), (mb, nb, _) = self._layout.shape, self._layout.tile_shape
        mt, nt, _ = self._layout.tiles
        rows = min(mb, m - (self._first[0] + i) * mb)
        columns = min(nb, n - (self._first[1] + j) * nb)
        self._done += 1
        self._operations += count_operations(rows, columns, k, self._dtype)
        if self._report is not None:
            seconds = perf_counter() - self._start
            self._report(Progress(self._done, mt * nt, self._operations, seconds))


def _missing(paths: list[str]) -> list[str]:
    return [path for path in paths if not os.path.exists(path)]


def _lazy(
    stored: StoredMatrix,
    tile: tuple[int, int],
    blocks: tuple[slice, slice],
    op: str,
) -> Any:
    """Make a dask array of the blocks of op(stored), in the layout of the file."""
    import dask.array as da

    if op != "N":
        tile, blocks = tile[::-1], blocks[::-1]
    whole = da.from_array(
        stored,
        chunks=tile,
        inline_array=True,
        asarray=False,
        meta=np.empty((0, 0), stored.dtype),
    )
    part = whole.blocks[blocks]
    # The plain name where the part is all: that of every other use of the file.
    return whole if part.numblocks == whole.numblocks else part


def open_job(
    a: Path,
    b: Path,
    output: Path,
    *,
    overwrite: bool = False,
    op_a: str = "N",
    op_b: str = "N",
    alpha: complex = 1,
    beta: complex = 0,
    c: Path | None = None,
    **options: Any,
) -> Job:
    """Open the inputs of a product and check all that can be known from their headers.

    Parameters
    ----------
    a, b, output : str or os.PathLike
        As in `multiply_files`.
    overwrite : bool
    op_a, op_b : {"N", "T", "C"}
    alpha, beta : number
    c : str or os.PathLike, optional
    **options
        As in `gemm`.

    Returns
    -------
    Job
        Ready to be laid out and run.

    Raises
    ------
    StoreError, TypeError, PlanError, AccuracyError
        As `multiply_files`.
    """
    settings = checks.make_options(options)
    left, right = checks.check_op(op_a, "op_a"), checks.check_op(op_b, "op_b")
    stored = {"A": open_matrix(a), "B": open_matrix(b)}
    if c is not None:
        stored["C"] = open_matrix(c)
    elif beta != 0:
        raise PlanError(f"beta={beta} given without C; pass C, or leave beta out")
    _check_output(output, stored)
    dtype = checks.result_dtype(None, **stored)
    alpha = checks.check_scalar(alpha, "alpha", dtype)
    beta = checks.check_scalar(beta, "beta", dtype)
    added = stored.get("C")
    m, n, k = checks.check_product_shapes(stored["A"], stored["B"], added, left, right)
    return Job(
        a=stored["A"],
        b=stored["B"],
        c=None if beta == 0 else added,
        output=output,
        overwrite=overwrite,
        shape=(m, n, k),
        dtype=dtype,
        system=checks.check_options(settings, dtype, k),
        scalars={"alpha": alpha, "beta": beta, "op_a": left, "op_b": right},
        options=options,
    )


def _check_output(output: Path, inputs: dict[str, StoredMatrix]) -> None:
    """Refuse an output that would replace an input, or lie inside one."""
    text = os.fspath(output)
    # With its member cut off; folders may hold "::" as well.
    starts = [text, *(text[: found.start()] for found in re.finditer("::", text))]
    for name, stored in inputs.items():
        source = os.path.realpath(stored.path)
        for target in map(os.path.realpath, starts):
            same = os.path.exists(target) and os.path.samefile(target, source)
            if same or _lies_in(target, source) or _lies_in(source, target):
                how = "is" if same else "and"
                what = f"the file of {name}" + ("" if same else " lie in one another")
                raise PlanError(
                    f"the output {text!r} {how} {what}; inputs are never written to: "
                    "choose another name"
                )


def _lies_in(path: str, folder: str) -> bool:
    return path.startswith(folder + os.sep)
