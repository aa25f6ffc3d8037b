"""Progress of a job on stderr: a line that changes on a terminal, lines in a log."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from .streams import say, write_error

# From line to line on a terminal, and in a log.
_IN_PLACE_SECONDS, _LOG_SECONDS = 1.0, 30.0
# Before the first line of a log, that of the first tile: short jobs need none.
_SHORT_SECONDS = 10.0


@contextmanager
def follow(
    total: int | None = None,
    done: int = 0,
    client: Any = None,
    workers: int = 0,
    seconds: float | None = None,
) -> Iterator[Callable[[Any], None]]:
    """Yield a callback for the progress of a job and its phases, and tell of them.

    `done`: tiles of an earlier run; `workers`: of the client, at the start; `seconds`:
    from line to line, instead of the usual ones.
    """
    latest: Any = None
    phase = "preparing"
    news, ended = Event(), Event()
    in_place = sys.stderr.isatty()
    every = seconds or (_IN_PLACE_SECONDS if in_place else _LOG_SECONDS)

    def report(progress: Any) -> None:
        nonlocal latest, phase
        if isinstance(progress, str):
            phase = progress
            return
        latest = progress
        news.set()

    def tell() -> None:
        short = min(every, _SHORT_SECONDS)
        ended.wait(short)
        news.wait(every - short)
        while not ended.is_set():
            line = phase if total is None else f"{done} of {total} tiles, {phase}"
            if latest is not None:
                line = _describe(latest, done, phase)
            if client is not None:
                line += _count_workers(client, workers)
            # Meanwhile the job may have ended.
            if not ended.is_set():
                _show_in_place(line) if in_place else say(line)
            ended.wait(every)

    # No exit waits for it, not even where the scheduler does not answer.
    Thread(target=tell, daemon=True).start()
    try:
        yield report
    finally:
        ended.set()
        news.set()
        if in_place:
            _show_in_place("")


def _show_in_place(line: str) -> None:
    """Put a line in the place of the one before: erase to its end (ECMA-48, EL)."""
    try:
        # Ask stderr: stdout may be a file.
        columns = os.get_terminal_size(2).columns or 80
    except OSError:
        columns = 80
    write_error(f"\r{line[: columns - 1]}\x1b[K")


def _describe(progress: Any, before: int, phase: str) -> str:
    from ..plan.show import show_seconds

    tiles = f"{progress.done} of {progress.tiles} tiles"
    left = progress.tiles - progress.done
    if not left:
        return f"{tiles}, {phase}"
    remaining = progress.seconds * left / (progress.done - before)
    return f"{tiles}, {progress.gflops:.1f} GFLOP/s, {show_seconds(remaining)} left"


def _count_workers(client: Any, before: int) -> str:
    from ..jobs.watchdog import ask, survey
    from ..plan.show import name_count

    try:
        found, _, *ailing = ask(client.run_on_scheduler, survey)
    # What a scheduler that goes away raises; the job says what that means.
    except Exception:
        return ", no answer from the scheduler"
    text = name_count(max(found, before), "worker")
    text = f", {found} of {text}" if found < before else f", {text}"
    states = zip(ailing, ("paused", "silent"), strict=True)
    return text + "".join(f", {n} {state}" for n, state in states if n)
