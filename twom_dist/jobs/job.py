"""One product or update of stored matrices: its tiles, its run."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from ..checks import ROUTINES
from ..errors import StoreError
from ..moduli import ResidueSystem
from ..plan import Cluster
from ..store import MatrixWriter, StoredMatrix, create_matrix
from .arrays import make_tiles
from .attempt import Attempt
from .layout import Layout, find_chunks, lay_out
from .report import JobSummary, Progress, count_operations
from .running import compute_wave, stopping_writes
from .waiting import ask
from .writing import Mirror, conjugate_transpose

Path = str | os.PathLike[str]
Report = Callable[[Progress], None]


@dataclass(frozen=True)
class Job:
    """A product or an update of stored matrices that has been checked.

    Attributes
    ----------
    routine : {"gemm", "herk", "syrk", "her2k", "syr2k"}
    a, b, c : StoredMatrix
        b is a for herk and syrk; c is None where beta is 0.
    output : str or os.PathLike
    overwrite : bool
    shape : tuple of int
        (m, n, k).
    dtype : numpy.dtype
        Of the result.
    system : ResidueSystem or None
        None for the native product.
    scalars : dict
        alpha and beta, and op_a and op_b of gemm, op and uplo of the others.
    options : dict
        The other arguments of the routine.
    """

    routine: str
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

    @property
    def operands(self) -> list[StoredMatrix]:
        """A, and B where the routine takes two matrices."""
        update = ROUTINES.get(self.routine)
        return [self.a, self.b] if update is None or update.two else [self.a]

    @property
    def inputs(self) -> dict[str, StoredMatrix]:
        """The matrices that are read, by letter; C0 is the C that is added."""
        matrices = {"A": self.a, "B": self.b, "C0": self.c}
        return {name: x for name, x in matrices.items() if x is not None}

    @property
    def engine(self) -> str:
        """The engine that is asked for: "auto" is settled when the job begins."""
        return str(self.options.get("engine", "auto"))

    def with_engine(self, engine: str) -> "Job":
        """Return the same job for an engine."""
        return replace(self, options={**self.options, "engine": engine})

    @property
    def mirror(self) -> Mirror | None:
        """What makes a tile that of the other triangle, where both are written."""
        if self.scalars.get("uplo") != "full":
            return None
        # In memory an empty update without C is zeros, none of them negative.
        zeros = self.c is None and (self.scalars["alpha"] == 0 or self.shape[2] == 0)
        conjugate = ROUTINES[self.routine].hermitian and not zeros
        return conjugate_transpose if conjugate else np.transpose

    def lay_out(self, cluster: Cluster, tile: int | None = None) -> Layout:
        """Choose tiles and waves for a cluster; see `twom_dist.jobs.lay_out`."""
        shared = {n: x for n, x in self.scalars.items() if n in ("beta", "uplo")}
        return lay_out(
            self.shape,
            self.dtype,
            cluster,
            routine=self.routine,
            tile=tile,
            chunks=find_chunks(self.routine, self.a, self.b, self.scalars),
            **shared,
            **self.options,
        )

    def create_output(self, layout: Layout, freed_bytes: int = 0) -> MatrixWriter:
        """Check the place of the output, and its disk, and start its temporary."""
        m, n, _ = self.shape
        mb, nb, _ = layout.tile_shape
        return create_matrix(
            self.output,
            (m, n),
            self.dtype,
            (mb, nb),
            overwrite=self.overwrite,
            freed_bytes=freed_bytes,
        )

    def check_workers(self, writer: MatrixWriter, client: Any) -> None:
        """Refuse workers that do not see the files that this process sees."""
        output = writer.draft.temporary if writer.concurrent else None
        inputs = list(self.inputs.values())
        for address, found in ask(client.run, find_unlike, inputs, output).items():
            if found is not None:
                problem, remedy, code = found
                raise StoreError(f"the worker at {address} {problem}", remedy, code)

    def run(
        self,
        attempt: Attempt,
        client: Any = None,
        *,
        progress: Report | None = None,
    ) -> JobSummary:
        """Compute and write every tile, then give the output its name.

        Parameters
        ----------
        attempt : Attempt
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
            A file cannot be read or written, or the workers are gone. After this and
            any other error, and after an interrupt, the output is what it was; tiles
            that have been recorded are kept beside it.
        """
        start = perf_counter()
        layout, writer, system = attempt.layout, attempt.writer, self.system
        job, threads = attempt.job, attempt.threads
        meter = _Meter(self, layout, start, progress, len(attempt.finished))

        def done(i: int, j: int) -> None:
            attempt.recorder.add(i, j)
            meter.count(i, j)

        context = nullcontext() if client is None else client.as_current()
        with attempt, stopping_writes(writer, client), context:
            for wave in layout.waves:
                cells = attempt.cells_of(wave)
                if cells:
                    tiles = make_tiles(job, layout, wave, cells)
                    compute_wave(tiles, writer, client, threads, done, self.mirror)
            attempt.recorder.settle()
        return JobSummary(
            path=writer.path,
            routine=self.routine,
            shape=self.shape,
            dtype=self.dtype,
            tiles=layout.tiles,
            tile_shape=layout.tile_shape,
            waves=len(layout.waves),
            method="native" if system is None else system.method,
            num_moduli=0 if system is None else system.num_moduli,
            engine=job.engine,
            seconds=perf_counter() - start,
            resumed=len(attempt.finished),
            discarded=attempt.num_discarded,
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


def find_unlike(
    inputs: list[StoredMatrix], output: str | None
) -> tuple[str, str, str] | None:
    """Find the first file that is not here what it was elsewhere; runs on workers."""
    share = "Keep the matrices on a file system that all workers share"
    for stored in inputs:
        try:
            same = stored.is_here()
        except StoreError as error:
            return f"cannot read an input: {error.problem}", share, "file-not-on-worker"
        if not same:
            problem = f"finds another file than this process at {stored.path!r}"
            return problem, share, "input-differs-on-worker"
    if output is not None and not os.path.exists(output):
        return f"does not find {output!r}", share, "file-not-on-worker"
    return None
