"""One run of a job: from the start, or from where an earlier one was stopped."""

import os
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..errors import MemoryLimitError, PlanError, StoreError
from ..kernels.registry import get_engine
from ..plan import Cluster
from ..store import MatrixWriter, Record, create_record, open_record, reopen_matrix
from ..tiles.placement import Cell
from .agreement import check_agreement
from .devices import (
    DEVICE_THREADS,
    DeviceRoom,
    choose_engine,
    find_device_room,
    find_devices,
)
from .layout import Layout, plan_wave
from .recording import Recorder
from .room import Room, find_room, list_smaller
from .subject import (
    check_same,
    check_unchanged,
    describe_job,
    is_known,
    is_whole,
    name_restart,
    read_layout,
)
from .waves import Wave

if TYPE_CHECKING:
    from .job import Job

AnyRoom = Room | DeviceRoom


@dataclass(frozen=True)
class Attempt:
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
        Of this process, where it computes without workers.
    stamps : dict
        Of the inputs, from when the output was begun.
    finished : frozenset of tuple of int
        Tiles that an earlier run has finished.
    leftover : Record or None
        What an earlier run has left, where this one starts anew.
    """

    job: "Job"
    layout: Layout
    writer: MatrixWriter
    recorder: Recorder
    threads: int
    stamps: dict[str, list[str]]
    finished: frozenset[Cell] = frozenset()
    leftover: Record | None = None

    @property
    def num_discarded(self) -> int:
        """Tiles of an earlier run that this one discards."""
        return 0 if self.leftover is None else len(self.leftover.finished)

    def describe_discarded(self) -> str:
        """Say what is discarded; nothing where nothing is."""
        if self.leftover is None:
            return ""
        return f"discarding {_count(self.leftover)} of an earlier run"

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
            try:
                check_unchanged(self.job, self.stamps)
            except BaseException:
                self.recorder.discard()
                raise
            try:
                self.writer.commit()
            except BaseException as failure:
                # Also of a job that was too short to be recorded.
                self.recorder.keep(whole=True)
                self._note_kept(failure)
                raise
            self.recorder.remove()
        elif self.recorder.keep():
            self._note_kept(error)
        else:
            self.writer.__exit__(kind, error, traceback)

    def describe_kept(self) -> str:
        """Say what is kept for a later run; nothing where nothing is."""
        record = self.recorder.record
        if record is None or not self.recorder.kept:
            return ""
        return (
            f"{_count(record)} are kept in {record.temporary!r}; run it again with "
            f"{_name_resume(record)} to continue"
        )

    def _note_kept(self, error: BaseException) -> None:
        if kept := self.describe_kept():
            error.add_note(kept)


def begin(
    job: "Job",
    cluster: Cluster,
    tile: int | None = None,
    *,
    resume: bool = False,
    client: Any = None,
) -> Attempt:
    """Lay a job out and start its output, or take up what an earlier run has left.

    Parameters
    ----------
    job : Job
    cluster : Cluster
        The workers as dask describes them.
    tile : int, optional
        As in `lay_out`.
    resume : bool
        Whether to continue an unfinished output, in its own layout. Otherwise a job
        that may overwrite discards it when it runs.
    client : distributed.Client, optional
        Of the workers, where they are there already. They are asked for GPUs, or this
        process is, unless the job names an engine without.

    Returns
    -------
    Attempt
        To be run, or abandoned.

    Raises
    ------
    EngineUnavailableError
        As `choose_engine`.
    StoreError
        As `create_matrix` and `check_agreement`; an unfinished output is there and
        is neither to be continued nor overwritten, or lacks only its place, or it is
        of another job; another run is writing it.
    PlanError
        As `lay_out`, or `tile` is not that of the unfinished output.
    MemoryLimitError
        Not even one tile, or not the layout of the unfinished output, fits a worker.
    """
    if client is not None:
        check_agreement(client)
    job, room = _settle(job, cluster, client)
    record = open_record(job.output)
    if record is None:
        return _start(job, room, tile)
    try:
        if resume:
            return _take_up(job, record, room, tile)
        _check_discardable(job, record)
        return _start(job, room, tile, record)
    except BaseException:
        record.close()
        raise


def _settle(job: "Job", cluster: Cluster, client: Any) -> tuple["Job", AnyRoom]:
    """Choose the engine, and with it the memory that tiles take."""
    devices = find_devices(job.engine, client)
    job = job.with_engine(choose_engine(job.engine, devices))
    if client is None and job.system is not None:
        # Compiles the kernels, once, while nothing has been made or discarded.
        get_engine(job.engine)
    if job.engine != "cuda":
        return job, find_room(cluster, client)
    if client is None:
        cluster = replace(cluster, threads=min(cluster.threads, DEVICE_THREADS))
    return job, find_device_room(cluster, devices)


def _start(
    job: "Job", room: AnyRoom, tile: int | None, leftover: Record | None = None
) -> Attempt:
    layout = room.lay_out(partial(job.lay_out, tile=tile), list_smaller(tile))
    # Told of the inputs as they are before the first of them is read.
    subject = describe_job(job, layout, room.cluster)
    freed_bytes = 0 if leftover is None else leftover.disk_bytes()
    writer = job.create_output(layout, freed_bytes)
    create = partial(create_record, job.output, writer.draft.temporary, subject)
    recorder = _make_recorder(job, writer, create)
    threads, stamps = room.cluster.threads, subject["inputs"]
    return Attempt(job, layout, writer, recorder, threads, stamps, leftover=leftover)


def _take_up(job: "Job", record: Record, room: AnyRoom, tile: int | None) -> Attempt:
    layout = read_layout(record)
    name = os.fspath(job.output)
    if tile is not None and layout.tile_shape != (tile, tile, tile):
        raise PlanError(
            f"tile={tile} given and {name!r} was begun with "
            f"{' x '.join(map(str, layout.tile_shape))}; leave it out, or "
            f"{name_restart(record)}"
        )
    check_same(record, describe_job(job, layout, room.cluster), name)
    layout = _fit_room(job, layout, room)
    mb, nb, _ = layout.tile_shape
    writer = reopen_matrix(
        job.output,
        record,
        job.shape[:2],
        job.dtype,
        (mb, nb),
        overwrite=job.overwrite,
    )
    recorder = _make_recorder(job, writer, lambda: record, record)
    finished = frozenset(record.finished)
    threads, stamps = room.cluster.threads, record.subject["inputs"]
    return Attempt(job, layout, writer, recorder, threads, stamps, finished)


def _make_recorder(job: "Job", writer: MatrixWriter, *args: Any) -> Recorder:
    return Recorder(writer, *args, mirrored=job.mirror is not None)


def _fit_room(job: "Job", layout: Layout, room: AnyRoom) -> Layout:
    """Keep as much as these workers can; refuse those that cannot hold the waves."""
    options = {n: x for n, x in job.scalars.items() if n in ("beta", "uplo")}
    chunks = max((layout.wave_chunks(w) for w in layout.waves), key=_size)

    def plan(cluster: Cluster) -> Layout:
        plan = plan_wave(
            job.routine,
            chunks,
            cluster,
            dtype=job.dtype,
            **options,
            **job.options,
        )
        return replace(layout, cache_bytes=min(layout.cache_bytes, plan.cache_bytes))

    try:
        return room.lay_out(plan)
    except MemoryLimitError as error:
        raise MemoryLimitError(
            f"{os.fspath(job.output)!r} was begun with other workers: {error}"
        ) from None


def _size(chunks: Any) -> int:
    m, n, _ = map(sum, chunks)
    return int(m + n)


def _check_discardable(job: "Job", record: Record) -> None:
    """Refuse to discard what is whole, and anything unasked."""
    name = os.fspath(job.output)
    if job.overwrite and not is_known(record):
        return
    read_layout(record)  # refuses what another version has left
    if is_whole(record):
        raise StoreError(
            f"an earlier run has finished all tiles of {name!r} and not put it in "
            f"place; {_name_resume(record)} does so, or {name_restart(record)}"
        )
    if not job.overwrite:
        raise StoreError(
            f"an earlier run was stopped with {_count(record)} of {name!r} finished; "
            f"continue it with {_name_resume(record)}, or start anew with "
            "overwrite=True"
        )


def _name_resume(record: Record) -> str:
    """Name what continues an output; where a finished one is there, it is replaced."""
    overwritten = os.path.lexists(record.target)
    return "resume=True, overwrite=True" if overwritten else "resume=True"


def _count(record: Record) -> str:
    """Count the finished tiles, and all, where the description is understood."""
    of_all = f" of {read_layout(record).num_computed}" if is_known(record) else ""
    return f"{len(record.finished)}{of_all} tiles"
