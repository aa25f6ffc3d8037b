"""Status of a job, as its output tells it: its tiles, its lock and its notes."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from socket import gethostname
from typing import Any

from ..errors import StoreError
from ..store import Output, Place, Signs, find_unfinished, open_matrix
from ..store._locks import BEAT_SECONDS
from ..store.output import RUN
from ..tiles.routine import ROUTINES
from ..typing import Cell

# Longest time since the last sign of a run whose lock another host does not see.
_FRESH_SECONDS = 3 * BEAT_SECONDS


@dataclass(frozen=True)
class Status:
    """Status of a job at one moment.

    Attributes
    ----------
    path : str
        The output.
    state : {"finished", "running", "stopped", "unknown"}
        "unknown": an unfinished output at a URL, where no run holds a lock.
    done, tiles : int
        Tiles on disk, and all of them; 0 of 0 before a run has begun its output, and
        once the output is finished.
    host : str
        Host of the latest run; empty if not known.
    phase : str
        What that run is doing; empty where it has not begun its output.
    since, last : float or None
        When that run began, and wrote its last tile, in seconds since 1970.
    tiles_per_second : float or None
        Mean speed of that run, if it has written a tile.
    seconds_left : float or None
        Time for the missing tiles at that speed.
    command : str
        What to type to continue; empty if a call in Python began the job.
    routine, shape, tile_shape, dtype
        Of the output; empty where a run has not begun it.
    """

    path: str
    state: str
    done: int = 0
    tiles: int = 0
    host: str = ""
    phase: str = ""
    since: float | None = None
    last: float | None = None
    tiles_per_second: float | None = None
    seconds_left: float | None = None
    command: str = ""
    routine: str = ""
    shape: tuple[int, ...] = ()
    tile_shape: tuple[int, ...] = ()
    dtype: str = ""


def find_status(path: str | os.PathLike[str]) -> Status:
    """Tell how far a job is from what lies at its output and beside it.

    Raises
    ------
    StoreError
        If there is neither an output nor a job that has begun it.
    """
    place = find_unfinished(path)
    name, signs = str(place.location), place.watch()
    try:
        left = place.find()
    except StoreError:
        # A run that holds the lock may be moving its files.
        if not signs.locked:
            raise
        left = None
    # A run that ends removes its files.
    with suppress(FileNotFoundError):
        if left is not None:
            return _describe(name, place, signs, *left)
    if signs.locked and not _makes_another(place):
        return Status(name, "running")
    return _describe_finished(path, name)


def _makes_another(place: Place) -> bool:
    """Tell whether a run makes another member of the file than the one asked for."""
    if place.location.format != "hdf5":
        return False
    with suppress(StoreError):
        return find_unfinished(place.location.path).find() is not None
    return False


def _describe(
    name: str, place: Place, signs: Signs, output: Output, manifest: Mapping[str, Any]
) -> Status:
    """Describe an unfinished output."""
    run, made = manifest.get(RUN, {}), manifest.get("made", {})
    routine = made.get("routine", "")
    written = output.find_times()
    cells, tiles = _pair(written, output, routine, made.get("uplo", "full"))
    begun = output.find_recorded()
    times = [x for x in cells.values() if x is not None]
    last, speed = max(times, default=None), None
    if begun is not None and last is not None and last > begun:
        # Every run says when, or writes the manifest just before its first tile.
        speed = sum(x >= begun for x in times) / (last - begun)
    left = None if speed is None else (tiles - len(cells)) / speed
    host = run.get("host", "")
    return Status(
        path=name,
        state=_judge(signs, host),
        done=len(cells),
        tiles=tiles,
        host=host,
        phase=run.get("phase", ""),
        since=run.get("since"),
        last=last,
        tiles_per_second=speed,
        seconds_left=left,
        command=run.get("command", ""),
        routine=routine,
        shape=output.shape,
        tile_shape=output.tile,
        dtype=output.dtype.name,
    )


def _pair(
    written: dict[Cell, float | None], output: Output, routine: str, uplo: str
) -> tuple[dict[Cell, float | None], int]:
    """Return the tiles that a job counts with their times, and how many there will be.

    An update counts a tile and its image as one.
    """
    rows, columns = output.counts
    if routine not in ROUTINES or not ROUTINES[routine].triangle:
        return written, rows * columns
    total = rows * (rows + 1) // 2
    if uplo != "full":
        return written, total
    return {
        (i, j): x for (i, j), x in written.items() if i <= j and (j, i) in written
    }, total


def _judge(signs: Signs, host: str) -> str:
    if signs.locked:
        return "running"
    if signs.beat is None:
        return "unknown"
    # The system of a host knows the locks of all of its processes.
    elsewhere = signs.locked is None or host != gethostname()
    fresh = abs(time.time() - signs.beat) < _FRESH_SECONDS
    return "running" if elsewhere and fresh else "stopped"


def _describe_finished(path: str | os.PathLike[str], name: str) -> Status:
    try:
        matrix = open_matrix(path)
    except StoreError as error:
        if error.code != "file-missing":
            raise
        raise StoreError(
            f"{name!r} is not there, and no job has left a tile of it",
            "Check its name and folder. A job that is queued, or failed at once, has "
            "left nothing: see the log of its batch job",
            "no-job",
        ) from error
    made = matrix.provenance().get("made", {})
    return Status(
        path=name,
        state="finished",
        routine=made.get("routine", ""),
        shape=matrix.shape,
        tile_shape=matrix.chunks or (),
        dtype=matrix.dtype.name,
    )
