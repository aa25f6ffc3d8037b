"""How far a job is, on stderr: a bar on a terminal, a line a minute elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Thread
from time import monotonic
from typing import Any

from dask.utils import format_time

from .streams import Stderr, say

Report = Callable[[Any], None]


def follow(
    total: int | None = None,
    done: int = 0,
    client: Any = None,
    workers: int = 0,
    *,
    bar: bool = False,
    seconds: float = 60.0,
) -> AbstractContextManager[Report]:
    """Yield a callback for the progress of a job, and tell of it.

    `done`: tiles of an earlier run; `workers`: of the client, at the start; `bar`: show
    one even where stderr is not a terminal; `seconds`: from line to line.
    """
    if bar or sys.stderr.isatty():
        return _bar(total, done)
    return _lines(total, done, client, workers, seconds)


@contextmanager
def _bar(total: int | None, done: int) -> Iterator[Report]:
    from tqdm import tqdm

    options: dict[str, Any] = {"file": Stderr(), "dynamic_ncols": True}
    with tqdm(total=total, initial=done, unit="tile", **options) as bar:

        def report(progress: Any) -> None:
            bar.total = progress.tiles
            bar.set_postfix_str(f"{progress.gflops:.1f} GFLOP/s", refresh=False)
            bar.update(progress.done - bar.n)

        yield report


@contextmanager
def _lines(
    total: int | None, done: int, client: Any, workers: int, seconds: float
) -> Iterator[Report]:
    latest: Any = None
    start, ended = monotonic(), Event()

    def report(progress: Any) -> None:
        nonlocal latest
        latest = progress

    def tell() -> None:
        while not ended.wait(seconds):
            line = f"{done} of {total} tiles"
            if latest is not None:
                line = _describe(latest, done, monotonic() - start)
            if client is not None:
                line += _count_workers(client, workers)
            # Meanwhile the job may have ended.
            if not ended.is_set():
                say(line)

    # No exit waits for it, not even where the scheduler does not answer.
    Thread(target=tell, daemon=True).start()
    try:
        yield report
    finally:
        ended.set()


def _describe(progress: Any, before: int, seconds: float) -> str:
    tiles = f"{progress.done} of {progress.tiles} tiles"
    left = progress.tiles - progress.done
    if not left:
        return f"{tiles}, writing the output"
    speed = progress.operations / seconds / 1e9
    remaining = format_time(seconds * left / (progress.done - before))
    return f"{tiles}, {speed:.1f} GFLOP/s, {remaining} left"


def _count_workers(client: Any, before: int) -> str:
    from ..jobs.watchdog import ask, survey

    try:
        found, _, *ailing = ask(client.run_on_scheduler, survey)
    # What a scheduler that goes away raises; the job says what that means.
    except Exception:
        return ", no answer from the scheduler"
    text = f", {found} of {before}" if found < before else f", {found}"
    states = zip(ailing, ("paused", "silent"), strict=True)
    return f"{text} workers" + "".join(f", {n} {state}" for n, state in states if n)
