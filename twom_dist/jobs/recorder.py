"""Keeping the journal of finished tiles, beside the work."""

from concurrent.futures import Future
from contextlib import suppress
from time import monotonic

from ..store import Journal, MatrixWriter
from ..typing import Cell
from .watchdog import start

# What a kill costs, beside the tiles under way: nothing is recorded more often, and
# nothing at all of a job that takes less.
RECORD_SECONDS = 10.0
# Of the time: a slow disk is asked less often.
RECORD_SHARE = 0.01


class Recorder:
    """Records finished tiles every now and then, in a thread of its own.

    Parameters
    ----------
    writer : MatrixWriter
    journal : Journal
        Of the writer's output; it begins with the first tiles.
    mirrored : bool
        Whether tile (j, i) is written with tile (i, j).

    Attributes
    ----------
    kept : bool
        Whether a later run can continue what this one has left.
    """

    def __init__(
        self, writer: MatrixWriter, journal: Journal, *, mirrored: bool = False
    ) -> None:
        self.journal, self.kept = journal, False
        self._writer, self._mirrored = writer, mirrored
        self._new: list[Cell] = []
        self._under_way: Future[None] | None = None
        self._due = monotonic() + RECORD_SECONDS

    def add(self, i: int, j: int) -> None:
        """Note that tile (i, j) has been written.

        Raises
        ------
        StoreError
            Earlier ones could not be brought to disk.
        """
        self._new.append((i, j))
        if self._under_way is not None and self._under_way.done():
            self._under_way.result()
            self._under_way = None
        if self._under_way is None and monotonic() >= self._due:
            cells, self._new = self._new, []
            self._under_way = start(self._write, cells)

    def keep(self, *, whole: bool = False) -> bool:
        """Record what is left, if anything ever was or it is whole; tell whether."""
        # A full disk, for instance, leaves what was recorded before.
        with suppress(Exception):
            self.settle()
        if self._new and (whole or self.journal.begun):
            with suppress(Exception):
                self._write(self._new)
        self.journal.close()
        self.kept = self.journal.begun
        return self.kept

    def discard(self) -> None:
        """Remove the output and what was recorded of it."""
        with suppress(Exception):
            self.settle()
        self.journal.remove()
        self._writer.discard()

    def settle(self) -> None:
        """Wait for what is being recorded."""
        if self._under_way is not None:
            self._under_way.result()

    def _write(self, cells: list[Cell]) -> None:
        begun = monotonic()
        regions = [self._writer.region(*cell) for cell in cells]
        if self._mirrored:
            regions += [self._writer.region(j, i) for i, j in cells if i != j]
        self._writer.sync(regions)
        self.journal.add(cells)
        seconds = monotonic() - begun
        self._due = begun + max(RECORD_SECONDS, seconds / RECORD_SHARE)
