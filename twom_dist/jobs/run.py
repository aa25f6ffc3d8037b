"""One run of a job: from the start, or from where an earlier one was stopped."""

import os
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from ..errors import MemoryLimitError, PlanError, StoreError
from ..kernels.registry import get_engine
from ..plan import Cluster, Layout, Wave
from ..store import (
    Journal,
    MatrixWriter,
    create_matrix,
    open_journal,
    reopen_matrix,
)
from ..typing import Cell
from .budget import budget_for_job, fit, list_smaller
from .devices import (
    DEVICE_THREADS,
    budget_for_devices,
    choose_engine,
    find_devices,
)
from .inputs import check_unchanged, check_workers
from .job import Job
from .manifest import (
    check_known,
    check_same,
    count_tiles,
    describe_job,
    is_known,
    is_whole,
    read_layout,
    refuse,
)
from .recorder import Recorder
from .version_check import check_versions


@dataclass(frozen=True)
class Run:
    """A job with its layout and an output that has been started.

    As a context manager it discards what an earlier run has left, and ends the run:
    the output gets its name, or, after an exception, goes; what has been recorded of
    it stays, for `begin` to continue.

    Attributes
    ----------
    job : Job
        With the engine that was chosen for it.
    layout : Layout
    writer : MatrixWriter
    recorder : Recorder
    threads : int
        Of this process, if it computes without workers.
    finished : frozenset of tuple of int
        Tiles that an earlier run has finished.
    leftover : Journal or None
        What an earlier run has left, where this one starts anew.
    """

    job: Job
    layout: Layout
    writer: MatrixWriter
    recorder: Recorder
    threads: int
    finished: frozenset[Cell] = frozenset()
    leftover: Journal | None = None

    @property
    def num_discarded(self) -> int:
        """Tiles of an earlier run that this one discards."""
        return 0 if self.leftover is None else len(self.leftover.finished)

    def describe_discarded(self) -> str:
        """Say what is discarded; nothing where nothing is."""
        if self.leftover is None:
            return ""
        return f"discarding {count_tiles(self.leftover)} of an earlier run"

    def describe_kept(self) -> str:
        """Say what is kept for a later run; nothing where nothing is."""
        if not self.recorder.kept:
            return ""
        journal = self.recorder.journal
        return (
            f"{count_tiles(journal)} are kept in {journal.temporary!r}; to continue, "
            f"run the same job with {_name_resume(journal)}"
        )

    def cells_of(self, wave: Wave) -> list[Cell]:
        """Tiles of a wave that are still to be computed."""
        return [cell for cell in wave.cells if cell not in self.finished]

    def abandon(self) -> None:
        """Give up before any work, and leave what was there."""
        if self.leftover is not None:
            self.leftover.close()
        if not self.recorder.keep():
            self.writer.discard()

    def __enter__(self) -> Self:
        """Discard the leftover: what could be refused has been refused."""
        if self.leftover is not None:
            try:
                self.leftover.discard()
            except BaseException:
                self.abandon()
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Put the output in place, or leave what a later run can continue."""
        if error is None:
            self._put_in_place()
        elif self.recorder.keep():
            error.add_note(self.describe_kept())
        else:
            self.writer.__exit__(kind, error, traceback)

    def _put_in_place(self) -> None:
        try:
            check_unchanged(self.job, self.recorder.journal.subject["inputs"])
            self.writer.commit()
        except BaseException as error:
            # A mixture is a part of no result. All else is kept, also of a job that
            # was too short to be recorded.
            if getattr(error, "code", "") == "input-changed":
                self.recorder.discard()
            elif self.recorder.keep(whole=True):
                error.add_note(self.describe_kept())
            raise
        self.recorder.journal.remove()


def begin(
    job: Job,
    cluster: Cluster,
    tile: int | None = None,
    *,
    resume: bool = False,
    client: Any = None,
) -> Run:
    """Lay a job out and start its output, or take up what an earlier run has left.

    Parameters
    ----------
    job : Job
    cluster : Cluster
        The workers as dask describes them.
    tile : int, optional
        Side of a tile.
    resume : bool
        Continue an unfinished output, in its own layout. Otherwise a job that may
        overwrite discards it when it runs.
    client : distributed.Client, optional
        Of the workers, where they are there already: they are asked for their
        versions, their GPUs and the files that they see.

    Returns
    -------
    Run
        To be computed, or abandoned.

    Raises
    ------
    StoreError, PlanError, MemoryLimitError, EngineUnavailableError
        As `multiply_files`.
    """
    if client is not None:
        check_versions(client)
    job, cluster = _settle(job, cluster, client)
    journal = open_journal(job.output)
    try:
        if journal is None:
            run = _start(job, cluster, tile)
        elif resume:
            run = _take_up(job, journal, cluster, tile)
        else:
            _check_discardable(job, journal)
            run = _start(job, cluster, tile, journal)
    except BaseException:
        if journal is not None:
            journal.close()
        raise
    if client is not None:
        try:
            check_workers(job, run.writer, client)
        except BaseException:
            run.abandon()
            raise
    return run


def _settle(job: Job, cluster: Cluster, client: Any) -> tuple[Job, Cluster]:
    """Choose the engine, and with it the memory that tiles take."""
    devices = find_devices(job.engine, client)
    job = job.with_engine(choose_engine(job.engine, devices))
    if client is None and job.system is not None:
        # Compiles the kernels, once, while nothing has been made or discarded.
        get_engine(job.engine)
    if job.engine != "cuda":
        return job, budget_for_job(cluster, client)
    if client is None:
        cluster = replace(cluster, threads=min(cluster.threads, DEVICE_THREADS))
    return job, budget_for_devices(cluster, devices)


def _start(
    job: Job, cluster: Cluster, tile: int | None, leftover: Journal | None = None
) -> Run:
    layout = fit(partial(job.lay_out, tile=tile), cluster, list_smaller(tile))
    # Told of the inputs as they are before the first of them is read.
    subject = describe_job(job, layout)
    writer = create_matrix(
        job.output,
        job.shape[:2],
        job.dtype,
        layout.tile_shape[:2],
        overwrite=job.overwrite,
        freed_bytes=0 if leftover is None else leftover.disk_bytes(),
    )
    journal = Journal(writer.path, writer.temporary, subject)
    recorder = Recorder(writer, journal, mirrored=job.mirror is not None)
    return Run(job, layout, writer, recorder, cluster.threads, leftover=leftover)


def _take_up(job: Job, journal: Journal, cluster: Cluster, tile: int | None) -> Run:
    layout = read_layout(journal, job)
    if tile is not None and layout.tile_shape != (tile, tile, tile):
        begun = " x ".join(map(str, layout.tile_shape))
        problem = f"{journal.target!r} was begun with tiles of {begun}, not {tile}"
        raise PlanError(*refuse(journal, problem, "Leave tile out", "tile-differs"))
    check_same(journal, describe_job(job, layout))
    layout = _fit_workers(job, layout, cluster)
    writer = reopen_matrix(
        job.output,
        journal,
        job.shape[:2],
        job.dtype,
        layout.tile_shape[:2],
        overwrite=job.overwrite,
    )
    recorder = Recorder(writer, journal, mirrored=job.mirror is not None)
    finished = frozenset(journal.finished)
    return Run(job, layout, writer, recorder, cluster.threads, finished)


def _fit_workers(job: Job, layout: Layout, cluster: Cluster) -> Layout:
    """Keep as much as these workers can; refuse those that cannot hold the waves."""
    widest = max(layout.waves, key=lambda wave: sum(layout.grid_of(wave).shape[:2]))

    def keep(cluster: Cluster) -> Layout:
        try:
            plan = layout.plan(widest, cluster)
        except MemoryLimitError:
            stretched = replace(cluster, memory=cluster.memory.stretch())
            plan = layout.plan(widest, stretched)
        kept = min(layout.spec.cache_bytes, plan.cache_bytes)
        return replace(layout, spec=replace(layout.spec, cache_bytes=kept))

    try:
        return fit(keep, cluster)
    except MemoryLimitError as error:
        raise MemoryLimitError(
            f"{os.fspath(job.output)!r} was begun with other workers: {error.problem}",
            error.remedy,
            error.code,
        ) from None


def _check_discardable(job: Job, journal: Journal) -> None:
    """Refuse to discard what is whole, and anything unasked."""
    if job.overwrite and not is_known(journal):
        return
    check_known(journal)
    resume, beside = _name_resume(journal), _is_beside(journal)
    if is_whole(journal):
        raise StoreError(
            f"an earlier run has finished all tiles of {journal.target!r} and not put "
            f"it in place; they are in {journal.temporary!r}",
            f"Put it there with {resume}, or remove that file to start anew",
            "unplaced-beside-output" if beside else "unplaced-output",
        )
    if not job.overwrite:
        raise StoreError(
            f"an earlier run was stopped with {count_tiles(journal)} of "
            f"{journal.target!r} finished",
            f"Continue it with {resume}, or start anew with overwrite",
            "unfinished-beside-output" if beside else "unfinished-output",
        )


def _is_beside(journal: Journal) -> bool:
    """Whether a finished output is there, which the unfinished one would replace."""
    return os.path.lexists(journal.target)


def _name_resume(journal: Journal) -> str:
    """Name what continues an output, in Python and on the command line."""
    return "resume and overwrite" if _is_beside(journal) else "resume"
