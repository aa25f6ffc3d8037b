"""The plan of a product: its tiles and its cost."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import ClassVar

import numpy as np
from dask.utils import format_bytes

from ..tiles.grid import Grid
from ..tiles.spec import Spec
from .cluster import Cluster
from .count import Counts, count
from .explanation import bound_error
from .footprint import WorkerMemory
from .show import Rows, as_text, name_count
from .sweeps import count_reads

_WHY_WAVES = "since the workers cannot hold the inputs of all tiles at once"


@dataclass(frozen=True, repr=False)
class Plan:
    """Tiles, tasks, traffic and memory of a call; print it to see them.

    Attributes
    ----------
    spec : Spec
        Parameters of all tasks, `cache_bytes` included.
    grid : Grid
        Tiles, and panels along k.
    cluster : Cluster
        Workers for which the plan is made.
    memory : WorkerMemory
        Predicted bytes on the fullest worker.
    job : bool
        True for a job on files, whose tasks write tiles, mirrored ones as well.
    streams : bool
        True if tasks read the inputs themselves, tile by tile, and hold no other tiles.
    bytes_moved : int
        Bytes that move between workers if each input tile starts on a worker that needs
        it: the volume of a 2-D SUMMA, or of a triangle's placement. Entries travel, not
        int8 copies, which take twice the bytes for 16 moduli.
    bytes_between_hosts : int
        Part of these bytes that go to another machine, once for all of its workers.
    idle_workers : int
        Number of workers that get no tile of C.
    worker_grid : tuple of int or None
        (pr, pc, pk): C tile (i, j) belongs to worker (i mod pr, j mod pc) of each of pk
        layers, which share k and add their residues. None for herk and the like.
    held_fraction : float or None
        Share of the rows of op(A) that the fullest worker needs; None for gemm.
    cramped : bool
        True if encoded tiles get less memory than is best.
    waves : int
        Passes of a job on files; figures other than `total` are for the first pass.
    total : dict of str to int
        Of all passes of a job: num_tasks, num_int8_gemms, int8_operations, about as
        many bytes_read to multiply, and at most bytes_moved.
    chunk_reads : float
        How often tiles of a job read each chunk that they cut; 1 if they cut none.
    notes : tuple of str
        Advice: what would be faster or smaller, or would be lost.

    See Also
    --------
    plan : Returns a plan.

    Examples
    --------
    >>> import twom_dist as td
    >>> found = td.plan(td.herk, (8192, 4096), chunks=1024, n_workers=4)
    >>> found.num_moduli, found.tiles, found.num_int8_gemms
    (16, (8, 8, 4), 4096)
    """

    spec: Spec
    grid: Grid
    cluster: Cluster
    memory: WorkerMemory
    job: bool
    streams: bool
    bytes_moved: int
    bytes_between_hosts: int
    idle_workers: int
    worker_grid: tuple[int, int, int] | None
    held_fraction: float | None
    cramped: bool = False
    waves: int = 1
    total: Mapping[str, int] = field(default_factory=dict, hash=False)
    chunk_reads: float = 1.0
    notes: tuple[str, ...] = ()
    # All other attributes are figures.
    _PARTS: ClassVar = ("spec", "grid", "cluster", "memory", "job", "cramped")

    @cached_property
    def _counts(self) -> Counts:
        # Counted on demand: a layout is chosen among hundreds of plans.
        return count(self.grid, self.spec, self.job, self.streams)

    @property
    def num_tasks(self) -> int:
        """Number of tasks, mirrored tiles included; for jobs without checks of data."""
        return self._counts.tasks

    @property
    def num_int8_gemms(self) -> int:
        """Number of int8 products of tiles."""
        return self._counts.gemms

    @property
    def int8_operations(self) -> int:
        """``2 m n k`` for each product of two planes, summed over tiles."""
        return self._counts.operations

    @property
    def routine(self) -> str:
        """Name of the routine: "gemm", "herk", "syrk", "her2k" or "syr2k"."""
        return self.spec.routine.name

    @property
    def uplo(self) -> str | None:
        """The triangle that herk and the like return: "full", "lower", "upper"."""
        return self.spec.uplo if self.spec.routine.triangle else None

    @property
    def shape(self) -> tuple[int, int, int]:
        """(m, n, k): op(A) is m x k and op(B) k x n."""
        return self.grid.shape

    @property
    def dtype(self) -> str:
        """Name of the dtype of the result."""
        return np.dtype(self.spec.dtype).name

    @property
    def method(self) -> str:
        """Name of the method; "real" of real matrices, "int32" and "int64" of bytes."""
        return self.spec.method

    @property
    def data_driven(self) -> bool:
        """True if the entries of the matrices determine the moduli."""
        return self.spec.data_driven

    @property
    def num_moduli(self) -> int:
        """Number of moduli, expected if entries choose; 0 for the native product."""
        return len(self.spec.moduli)

    @property
    def modulus_bits(self) -> float:
        """Binary logarithm of the product of the moduli; 0 for the native product."""
        return 0.0 if self.spec.native else self.spec.system.modulus_bits

    @property
    def tiles(self) -> tuple[int, int, int]:
        """(mt, nt, kt): number of tiles along m, n and k."""
        return self.grid.mt, self.grid.nt, self.grid.kt

    @property
    def tile_shape(self) -> tuple[int, int, int]:
        """(mb, nb, kb): sizes of the largest tile."""
        return max(self.grid.m), max(self.grid.n), max(self.grid.k)

    @property
    def panels(self) -> int:
        """Number of tasks along k for each C tile that is computed."""
        return len(self.grid.panels)

    @property
    def layers(self) -> int:
        """Number of groups of workers that share k; each computes all of C."""
        return len(self.grid.layers)

    @property
    def n_workers(self) -> int:
        """Number of worker processes."""
        return self.cluster.workers

    @property
    def peak_worker_bytes(self) -> int:
        """Predicted bytes of tiles on the fullest worker, all of its C among them."""
        return self.memory.total

    @property
    def least_worker_bytes(self) -> int:
        """The same if tiles of C are not kept, but written to a file or added up."""
        return self.memory.least

    def fits(self, *, leaving: bool) -> bool:
        """Tell whether the workers have room for it.

        Parameters
        ----------
        leaving : bool
            True if tiles of C are not kept, but written to a file or added up.

        Returns
        -------
        bool
            True without a limit.
        """
        room = self.cluster.memory.tile_bytes
        need = self.memory.least if leaving else self.memory.total
        return room is None or need <= room

    @property
    def cache_bytes(self) -> int:
        """Bytes of encoded tiles that a worker may keep."""
        return self.spec.cache_bytes

    @property
    def error_bound(self) -> float:
        """Bound of the error; an `Explanation` says what it is relative to."""
        return bound_error(self.spec, self.spec.data_driven).value

    def to_json(self) -> str:
        """Return the plan as one line of JSON."""
        own = [x.name for x in fields(self) if x.name not in self._PARTS]
        public = {x: y for x, y in vars(Plan).items() if not x.startswith("_")}
        own += [name for name, x in public.items() if isinstance(x, property)]
        figures = dict(zip("mnk", self.shape, strict=True))
        return json.dumps(figures | {name: getattr(self, name) for name in own})

    def __repr__(self) -> str:
        return as_text(self._list_rows())

    def _list_rows(self) -> Rows:
        (m, n, k), (mt, nt, kt), (mb, nb, kb) = self.shape, self.tiles, self.tile_shape
        moduli = name_count(self.num_moduli, "modulus", "moduli")
        moduli += f", {self.modulus_bits:.1f} bits"
        if self.data_driven:
            each = self.int8_operations / max(1, self.num_moduli)
            moduli += f", expected: the data decide; {each:.2g} operations a modulus"
        products = (
            f"{self.num_int8_gemms} of tiles, {self.int8_operations:.3g} operations"
        )
        cuts = (
            f"cut by tiles, and read whole for each: up to {self.chunk_reads:.3g} "
            "times; rechunk the files, or give workers more memory"
        )
        moved = ["entries of op(A) and op(B)"] * (not self.streams)
        moved += ["residues of C"] * (self.layers > 1)
        what = f"between workers: {' and '.join(moved) or 'nothing'}"
        between = f"{self.bytes_between_hosts / 2**30:.3g} GiB of these, each once"
        panels = name_count(self.panels, "panel")
        looks = self.job and self.spec.looks
        of = "after the check of the data" if looks else "of dask"
        wave = f"below is the first of {self.waves} waves, {_WHY_WAVES}"
        result = f"integers in {self.dtype}" if self.spec.exact else self.dtype
        unfit = (
            "the result, unless it is written (to_zarr) or reduced (sum) as it comes"
        )
        return [
            *([("does not fit", unfit)] * (not self.fits(leaving=False))),
            ("routine", self.routine + (f", {self.uplo}" if self.uplo else "")),
            *([("all waves", self._show_total())] if self.waves > 1 else []),
            *([("wave", wave)] if self.waves > 1 else []),
            ("product", f"{m} x {k} times {k} x {n}, {result}"),
            ("method", self.method + (f", {moduli}" if self.num_moduli else "")),
            ("error bound", str(bound_error(self.spec, self.spec.data_driven))),
            ("tiles", f"{mt} x {nt} of C, {kt} along k; up to {mb} x {nb} x {kb}"),
            ("tasks", f"{self.num_tasks} {of}, {panels} along k for each tile of C"),
            ("int8 GEMMs", products),
            ("workers", self._show_workers()),
            ("idle workers", f"{self.idle_workers}"),
            *([("inputs", describe_reads(self))] if self.streams else []),
            *([("chunks", cuts)] if self.chunk_reads > 1 else []),
            ("data moved", f"{format_bytes(self.bytes_moved)} {what}"),
            *([("between machines", between)] if self.cluster.node else []),
            ("peak per worker", self._show_peak()),
            *(("note", x) for x in self.notes),
        ]

    def _show_total(self) -> str:
        total = self.total
        read, moved = (format_bytes(total[x]) for x in ("bytes_read", "bytes_moved"))
        return (
            f"{total['num_tasks']} tasks, {total['int8_operations']:.3g} operations, "
            f"about {read} read to multiply, up to {moved} moved between workers"
        )

    def _show_peak(self) -> str:
        peak = str(format_bytes(self.memory.total))
        least = format_bytes(self.memory.least)
        if room := self.cluster.memory.tile_bytes:
            peak += f" of {format_bytes(room)} for tiles"
            peak += f" in {format_bytes(self.cluster.memory.limit)}"
        if self.memory.total == self.memory.least:
            return peak
        return f"{peak}; {least} if tiles of C are not kept"

    def _show_workers(self) -> str:
        if self.worker_grid is not None:
            shape = " x ".join(map(str, self.worker_grid))
            return f"{self.n_workers}, as {shape} along m, n and k"
        rows = f"each with up to {self.held_fraction:.0%} of the rows"
        shared = f", in {self.layers} layers along k" if self.layers > 1 else ""
        return f"{self.n_workers}, {rows}{shared}"


def describe_reads(plan: Plan) -> str:
    """Say how often tasks read, or make, the inputs that they multiply."""
    a, b = count_reads(plan.grid, plan.spec)
    times = f"{a:.3g} times" if a == b else f"A {a:.3g} times, B {b:.3g} times"
    times = "once" if a == b == 1 else times
    return f"read by the tasks that multiply them, {times}"
