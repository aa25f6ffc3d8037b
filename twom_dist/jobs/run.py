"""One run of a job: decisions before any work, and the output while it runs."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from ..errors import MemoryLimitError, StoreError, warn_of_native
from ..kernels.registry import get_engine
from ..plan import Cluster, Layout
from ..store import Output, Unfinished, find_unfinished
from ..store.output import RUN, Manifest
from ..tiles.interpreter import Findings
from ..typing import Cell
from ..workers.diagnosis import compare_processes
from .job import Job, check_workers, identify_inputs
from .manifest import (
    MULTIPLYING,
    check_same,
    check_same_panels,
    describe_job,
    describe_layout,
    describe_run,
    explain_job,
    pack,
    unpack,
)
from .resources import choose_engine_and_budget
from .watchdog import ask


@dataclass(frozen=True)
class Run:
    """A job with its layout, and where its output is made."""

    job: Job  # with the engine that was chosen for it
    layout: Layout
    cluster: Cluster  # the workers; or this process, if it computes without any
    place: Unfinished
    output: Output
    manifest: Manifest
    missing: dict[str, int]  # missing chunks of inputs, read as the fill value
    look: Findings | None = None  # findings of an analysis by an earlier run

    def list_finished(self) -> set[Cell]:
        """Tiles that are on disk, each with its image in the other triangle."""
        found, mirrored = self.output.list_finished(), self.job.mirror is not None
        return {
            (i, j)
            for wave in self.layout.waves
            for i, j in wave.cells
            if (i, j) in found and (not mirrored or (j, i) in found)
        }

    def settle(self, found: Findings) -> Self:
        """Return the same run with the findings of an analysis, and record them.

        More moduli take more memory, and so smaller waves of the same tiles. A
        continued run finds the same, and keeps to the panels of a native product.
        """
        job, layout = self.job, replace(self.layout, spec=found.spec)
        if job.spec.data_driven:
            system = None if found.spec.native else found.spec.system
            rho, decided_by = found.spec.rho, found.spec.decided_by
            job = replace(job, spec=job.spec.with_moduli(system, rho, decided_by))
            if system is None:
                warn_of_native()
        if job.system is None:
            check_same_panels(self.place.location.path, self.manifest, layout)
        elif layout.spec.moduli != self.layout.spec.moduli:
            # If no tile fits with more moduli, keep the layout and let dask spill.
            with suppress(MemoryLimitError):
                layout = job.lay_out(self.cluster, layout.tile_shape)
        about = self.manifest[RUN] | {"phase": MULTIPLYING}
        self.output.record(**{RUN: about}, accuracy=vars(explain_job(job, found)))
        if self.job.spec.looks:
            self.place.keep(pack(found, self.layout.spec))
        return replace(self, job=job, layout=layout)

    def finish(self, commit: Callable[[], None] = lambda: None) -> None:
        """Give the output its name; refuse a lost tile, which would read as zeros."""
        gone = self.layout.num_computed - len(self.list_finished())
        # Tiles without entries are not written.
        if gone and 0 not in self.output.shape:
            problem = f"{gone} tiles in {self.place.folder!r} are gone"
            remedy = "Run the same job again, and keep others out of that folder"
            raise StoreError(problem, remedy, "tiles-gone")
        self.place.finish(self.output, self.manifest["overwrite"], commit)


@contextmanager
def claim(job: Job) -> Iterator[Unfinished]:
    """Keep other runs out of a job's output while workers start; refuse a taken one."""
    place = find_unfinished(job.output)
    with place.lock():
        if job.overwrite or place.find() is None:
            place.check(job.overwrite)
        yield place


@contextmanager
def begin(
    job: Job,
    cluster: Cluster,
    tile: int | None = None,
    *,
    claimed: Unfinished | None = None,
    client: Any = None,
    tell: Callable[[str], None] | None = None,
) -> Iterator[Run]:
    """Check and lay out a job, and begin or find its output, claimed if it is not yet.

    `client`: that of the cluster's workers, if it has any. After an exception finished
    tiles stay, so that the same job can continue; a note on the exception, passed to
    `tell` as well, says how many. Tiles of a wrong result are removed.
    """
    job, cluster = _settle(job, cluster, client)
    with claim(job) if claimed is None else nullcontext(claimed) as place:
        run, anew = _lay_out(job, cluster, tile, place)
        place.check_space(run.output)
        if client is not None:
            check_workers(job, run.manifest["inputs"], place, client)
        try:
            about = {RUN: describe_run(job, place)}
            run = replace(run, manifest=run.manifest | about)
            if anew:
                place.start(run.output, run.manifest)
            else:
                run.output.record(**about)
            yield run
        except BaseException as error:
            wrong = getattr(error, "code", "") == "input-changed"
            kept, looked = 0, False
            # The exception under way says more.
            with suppress(StoreError):
                kept = 0 if wrong else len(run.list_finished())
                looked = not wrong and place.find_look() is not None
            gone = isinstance(error, StoreError)
            gone = gone and not os.path.exists(place.lock_path)
            if gone or not (kept or looked):
                # A writer may have made a part of a folder again that has gone.
                with suppress(StoreError):
                    place.remove()
            if gone:
                problem = f"{place.folder!r} has gone while the job ran"
                remedy = "If it was moved, move it back, and run the same job again"
                raise StoreError(problem, remedy, "file-missing") from error
            note = describe_kept(kept, run, looked)
            if not wrong:
                error.add_note(note)
                if tell is not None:
                    tell(note)
            raise


def _lay_out(
    job: Job, cluster: Cluster, tile: int | None, place: Unfinished
) -> tuple[Run, bool]:
    """Lay out a job, or find what an earlier run left; tell whether it is new.

    If the earlier run finished no tile, only its analysis is used again.
    """
    inputs, stamps, missing = identify_inputs(job)
    manifest = describe_job(job, inputs) | {"stamps": stamps}
    left, look = None if job.overwrite else place.find(), None
    if left is not None and not left[0].list_finished():
        with suppress(StoreError):
            check_same(place.location.path, left[1], manifest)
            manifest["overwrite"] = left[1]["overwrite"]
            look = place.find_look()
        left = None
    if left is None:
        place.check(manifest["overwrite"])
        layout = job.lay_out(cluster, tile)
        output = place.output(job.shape[:2], layout.tile_shape[:2], job.dtype)
        manifest |= describe_layout(layout)
    else:
        output, begun = left
        check_same(place.location.path, begun, manifest)
        # The earlier run has settled whether it may replace an existing file.
        place.check(begun["overwrite"], anew=False)
        layout, manifest = job.lay_out(cluster, tuple(begun["tile"])), begun
        look = place.find_look()
    found = look and unpack(look, job.spec, layout.grid)
    run = Run(job, layout, cluster, place, output, manifest, missing, found or None)
    return run, left is None


def _settle(job: Job, cluster: Cluster, client: Any) -> tuple[Job, Cluster]:
    """Check the workers; choose the engine, and with it the memory of tiles."""
    if client is not None:
        for finding in ask(compare_processes, client):
            # Such workers could not read the tasks, or would compute other bits.
            if finding.status == "failure":
                raise StoreError(finding.found, finding.advice, "versions-differ")
    engine, cluster = choose_engine_and_budget(job.engine, cluster, client)
    job = job.with_engine(engine)
    if client is None and job.system is not None:
        get_engine(job.engine)  # compile the kernels once, before anything is made
    return job, cluster


def describe_kept(kept: int, run: Run, looked: bool) -> str:
    """Say what a later run can continue: tiles, or the check of the data."""
    if not (kept or looked):
        return "no tile was finished, so nothing is kept"
    without = ", without overwrite," if run.manifest["overwrite"] else ""
    again = f"in {run.place.folder!r}; run the same job again{without}"
    if not kept:
        return (
            f"no tile was finished, and the check of the data is kept {again} to "
            "multiply from the beginning without another check"
        )
    return f"{kept} of {run.layout.num_computed} tiles are kept {again} to continue"
