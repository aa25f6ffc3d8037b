"""Reports on jobs: progress, the summary at the end, and the status at any time."""

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from socket import gethostname
from typing import Any

import numpy as np

from ..errors import StoreError
from ..plan.chunks import count_tiles
from ..plan.explanation import Explanation
from ..plan.show import name_count
from ..store import Output, Signs, find_unfinished, open_matrix
from ..store._guards import BEAT_SECONDS
from ..store.output import RUN, Manifest
from ..tiles.routine import ROUTINES
from ..typing import Cell


def count_operations(m: int, n: int, k: int, dtype: Any, routine: str = "gemm") -> int:
    """Count the operations of the native product: 8mnk complex, 2mnk real.

    A triangle of one product (herk, syrk) takes half as many, one of two as many.
    """
    each = 8 if np.dtype(dtype).kind == "c" else 2
    rule = ROUTINES[routine]
    return (each // 2 if rule.triangle and not rule.sums else each) * m * n * k


@dataclass(frozen=True)
class Progress:
    """The progress of a job; herk and the like count the tiles of one triangle."""

    done: int  # tiles written so far, by this run or one that it continues
    tiles: int
    operations: int  # effective floating-point operations of this run's tiles
    seconds: float  # since the first product began, after the check of the data

    @property
    def gflops(self) -> float:
        """Effective GFLOP/s of the products so far."""
        return self.operations / max(self.seconds, 1e-9) / 1e9


@dataclass(frozen=True, repr=False)
class JobSummary:
    """A finished job on files; print it to see what was done, and how fast.

    Attributes
    ----------
    path, routine, method, engine : str
        Where the result is, and how it was computed.
    shape, dtype : tuple of int, numpy.dtype
        (m, n, k): the result is m x n, and sums have k terms.
    tiles, tile_shape : tuple of int
        Numbers of tiles along m, n and k, and the largest tile: (mb, nb, kb).
    waves : int
        Number of passes; several if workers cannot hold all inputs.
    num_moduli, resumed, damaged : int
        Number of moduli, 0 for the native product; of tiles that an earlier run had
        finished; and of these, tiles that were damaged on disk and computed again.
    seconds, gflops : float
        Time from the first task to the finished file; effective GFLOP/s of this run.
    operations : int
        Effective floating-point operations of this run: for all tiles 8mnk if complex,
        2mnk if real, and half as many for herk and syrk.
    missing : dict
        Missing chunks of each zarr or HDF5 input, which were read as its fill value.
    explanation : Explanation
        How accurate the result is, and why.

    See Also
    --------
    multiply_files, rank_k_files : Return one.

    Examples
    --------
    >>> import numpy as np, os, tempfile, twom_dist as td
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(a := os.path.join(folder, "A.npy"), np.eye(3))
    ...     print(td.multiply_files(a, a, os.path.join(folder, "C.npy")))
    /...C.npy: gemm, 3 x 3 float64, 1 x 1 tiles (k in 1), real with 15 moduli, cpu, ...
    """

    path: str
    routine: str
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    tiles: tuple[int, int, int]
    tile_shape: tuple[int, int, int]
    waves: int
    method: str
    num_moduli: int
    engine: str
    seconds: float
    resumed: int
    operations: int
    missing: dict[str, int]
    damaged: int = 0
    explanation: Explanation | None = None

    @property
    def gflops(self) -> float:
        """Effective GFLOP/s of this run."""
        return self.operations / max(self.seconds, 1e-9) / 1e9

    def to_json(self) -> str:
        """Return the summary as one line of JSON."""
        more = {"dtype": self.dtype.name, "gflops": self.gflops}
        return json.dumps(asdict(self) | more)

    def __repr__(self) -> str:
        (m, n, _), (mt, nt, kt) = self.shape, self.tiles
        moduli = f" with {name_count(self.num_moduli, 'modulus', 'moduli')}"
        waves = f" in {self.waves} waves" if self.waves > 1 else ""
        resumed = f", {self.resumed} of them from before" if self.resumed else ""
        text = (
            f"{self.path}: {self.routine}, {m} x {n} {self.dtype}, {mt} x {nt} tiles"
            f"{waves}{resumed} (k in {kt}), {self.method}"
            f"{moduli if self.num_moduli else ''}, {self.engine}, "
            f"{self.seconds:.1f} s, {self.gflops:.1f} GFLOP/s"
        )
        for name, count in self.missing.items():
            text += (
                f"; {count} chunks of {name} are missing, and read as its fill value"
            )
        if self.damaged:
            tiles = name_count(self.damaged, "tile")
            text += f"; {tiles} from before found damaged on disk and computed again"
        return text


# Longest time since the last sign of a run whose lock another host does not see.
_FRESH_SECONDS = 3 * BEAT_SECONDS


@dataclass(frozen=True)
class Status:
    """Status of a job at one moment; None or empty is what is not known of it."""

    path: str  # the output
    state: str  # "finished", "running" or "stopped"
    done: int | None = None  # tiles on disk, of `tiles` in all
    tiles: int | None = None
    host: str = ""
    phase: str = ""
    # When the run began, and wrote its last tile, in seconds since 1970.
    since: float | None = None
    last: float | None = None
    tiles_per_second: float | None = None
    seconds_left: float | None = None
    command: str = ""  # what to type to continue; empty if Python began the job
    routine: str = ""
    shape: tuple[int, ...] = ()
    tile_shape: tuple[int, ...] = ()
    dtype: str = ""


def find_status(path: str | os.PathLike[str]) -> Status:
    """Report how far a job is, from the files at its output and next to it.

    Refused if there is neither an output nor a job that has begun it.
    """
    place = find_unfinished(path)
    name, signs = str(place.location), place.watch()
    try:
        left = place.find_any()
    except StoreError:
        # A run that holds the lock may be moving its files.
        if not signs.locked:
            raise
        left = None
    # A run that ends removes its files.
    with suppress(FileNotFoundError):
        if left is not None and not place.is_other(left[1]):
            return _describe(name, signs, *left)
    if signs.locked and left is None:
        return Status(name, "running")
    try:
        matrix = open_matrix(path)
    except StoreError as error:
        if error.code != "file-missing":
            raise
        problem = f"{name!r} is not there, and no job has left a tile of it"
        why = "A job that is queued, or failed at once, has left nothing"
        remedy = f"Check its name and folder. {why}: see the log of its batch job"
        raise StoreError(problem, remedy, "no-job") from error
    routine = matrix.provenance().get("made", {}).get("routine", "")
    tiles = None
    if matrix.chunks and routine in ROUTINES:
        counts = map(count_tiles, matrix.shape, matrix.chunks)
        tiles = ROUTINES[routine].count_cells(*counts)
    return Status(
        path=name,
        state="finished",
        done=tiles,
        tiles=tiles,
        routine=routine,
        shape=matrix.shape,
        tile_shape=matrix.chunks or (),
        dtype=matrix.dtype.name,
    )


def _describe(name: str, signs: Signs, output: Output, manifest: Manifest) -> Status:
    run, made = manifest.get(RUN, {}), manifest.get("made", {})
    routine = made.get("routine", "")
    cells, tiles = _pair(output, routine, made.get("uplo", "full"))
    # The manifest is written just before the first tile of a run.
    begun = os.stat(os.path.join(output.array, "zarr.json")).st_mtime
    last, speed = max(cells.values(), default=None), None
    if last is not None and last > begun:
        speed = sum(x >= begun for x in cells.values()) / (last - begun)
    left = None if speed is None else (tiles - len(cells)) / speed
    host, command = run.get("host", ""), run.get("command", "")
    # The system of a host knows the locks of all of its processes.
    elsewhere = signs.locked is None or host != gethostname()
    fresh = abs(time.time() - signs.beat) < _FRESH_SECONDS
    running = signs.locked or (elsewhere and fresh)
    if command and run.get("output") != name:
        command += "  # as typed before the output was moved"
    return Status(
        path=name,
        state="running" if running else "stopped",
        done=len(cells),
        tiles=tiles,
        host=host,
        phase=run.get("phase", ""),
        since=run.get("since"),
        last=last,
        tiles_per_second=speed,
        seconds_left=left,
        command=command,
        routine=routine,
        shape=output.shape,
        tile_shape=output.tile,
        dtype=output.dtype.name,
    )


def _pair(output: Output, routine: str, uplo: str) -> tuple[dict[Cell, float], int]:
    """Return the times of the tiles that a job counts, and how many there will be."""
    # An update counts a tile and its image as one.
    written, (rows, columns) = output.find_times(), output.counts
    if routine not in ROUTINES or not ROUTINES[routine].triangle:
        return written, rows * columns
    total = ROUTINES[routine].count_cells(rows, columns)
    if uplo != "full":
        return written, total
    both = ((x, at) for x, at in written.items() if x[0] <= x[1])
    return {x: at for x, at in both if x[::-1] in written}, total
