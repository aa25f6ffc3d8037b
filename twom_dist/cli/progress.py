"""Progress of a job on stderr: a bar on a terminal, or lines in a log."""

import sys
from threading import RLock
from time import time
from typing import Any

from tqdm import tqdm

from .failures import say

# From line to line on a terminal, and in a log, where short jobs need none.
_BAR_SECONDS, _LOG_SECONDS = 1.0, 30.0


class Bar(tqdm):
    """The tiles of a job: those that are done, the speed and the time left."""

    monitor_interval = 0  # no thread of tqdm's own is needed to redraw it

    def __init__(self, total: int | None = None, initial: int = 0) -> None:
        self._on_terminal = sys.stderr.isatty()
        seconds = _BAR_SECONDS if self._on_terminal else _LOG_SECONDS
        super().__init__(
            total=total,
            initial=initial,
            unit="tile",
            leave=False,
            miniters=1,
            mininterval=seconds,
            delay=0 if self._on_terminal else seconds,
            dynamic_ncols=self._on_terminal,
            ncols=None if self._on_terminal else 0,  # numbers alone
        )

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Draw the bar, or write a line to the log."""
        if self._on_terminal:
            return bool(super().display(msg, pos))
        if msg is None:
            say(str(self))
        return False

    def enter(self, phase: str) -> None:
        """Show what the job is doing; the check of the data has no time left."""
        is_late = time() >= self.start_t + self.delay
        if phase == "multiplying":
            self.unpause()
        self.set_description_str(phase, refresh=is_late)

    def report(self, progress: Any) -> None:
        """Show the progress of a job, after a tile."""
        self.total = progress.tiles
        self.set_postfix_str(f"{progress.gflops:.1f} GFLOP/s", refresh=False)
        self.update(progress.done - self.n)


# tqdm's own lock is shared with other processes, and may start one.
Bar.set_lock(RLock())
