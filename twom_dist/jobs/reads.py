"""Bytes of the inputs that tasks have read, told to the job that waits for them.

Where C has few tiles, they are all that shows for minutes how far a job is.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from dask.utils import format_bytes

from ..plan import Layout
from ..plan.show import show_seconds
from ..tiles.interpreter import Found
from ..tiles.spec import SIDES, is_straight
from ..typing import Cell
from .job import Job

# From one text to the next, and from one that is recorded with the output.
TEXT_SECONDS, RECORD_SECONDS = 1.0, 5.0

# Jobs that run in threads of this process, by topic.
_listeners: dict[str, list[Callable[[int], None]]] = {}


def tell_read(path: str, nbytes: int) -> None:
    """Tell of bytes that the task of this thread has read."""
    topic = _topic(path)
    module = sys.modules.get("distributed.worker")
    state = getattr(module and module.thread_state, "execution_state", None)
    if state is not None:
        state["worker"].log_event(topic, nbytes)
        return
    for listen in _listeners.get(topic, ()):
        listen(nbytes)


def _topic(path: str) -> str:
    return f"twom-read-{path}"


class Reads:
    """Bytes that were read in a phase of a job, of all that it will read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.begin("", 0)

    def begin(self, phase: str, total: int) -> None:
        """Begin a phase that reads so many bytes, or a multiple of it."""
        self._phase, self._total, self._done = phase, total, 0
        self._since = monotonic()

    def add(self, nbytes: int) -> None:
        """Count bytes."""
        with self._lock:
            self._done += nbytes

    def __str__(self) -> str:
        done = self._done
        if not (done and self._total):
            return self._phase
        # What the data decide may take all of them once more.
        total = -(-done // self._total) * self._total
        speed = done / max(monotonic() - self._since, 1e-3)
        return (
            f"{self._phase}, {format_bytes(done)} of {format_bytes(total)} read, "
            f"{format_bytes(int(speed))}/s, {show_seconds((total - done) / speed)} left"
        )


@contextmanager
def hear(job: Job, client: Any) -> Iterator[Reads]:
    """Yield a count of what is read of A and B while this lasts."""
    reads = Reads()
    topics = {_topic(job.inputs[name].path) for name in job.inputs if name != "C0"}
    for topic in topics:
        if client is None:
            _listeners.setdefault(topic, []).append(reads.add)
        else:
            client.subscribe_topic(topic, lambda event: reads.add(event[1]))
    try:
        yield reads
    finally:
        for topic in topics:
            if client is None:
                _listeners[topic].remove(reads.add)
            else:
                # The scheduler may be gone, which others tell.
                with suppress(Exception):
                    client.unsubscribe_topic(topic)


@contextmanager
def keep_telling(
    text: Callable[[], str], tell: Callable[[str], None], record: Callable[[str], None]
) -> Iterator[None]:
    """Tell a text every second while this lasts; record a new one more rarely."""
    ended = Event()

    def act() -> None:
        recorded, since = text(), monotonic()
        while not ended.wait(TEXT_SECONDS):
            now = text()
            # Progress that cannot be told is no reason to stop.
            with suppress(Exception):
                tell(now)
                if now != recorded and monotonic() - since >= RECORD_SECONDS:
                    recorded, since = now, monotonic()
                    record(now)

    thread = Thread(target=act, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def look_bytes(job: Job, held: bool) -> int:
    """Count the bytes that a look reads: once if they stay on the workers, else twice.

    Shifts along k, and pairs that the sums leave open, take more.
    """
    matrices = [job.inputs[x] for x in ("A", "B") if x in job.inputs]
    nbytes = sum(x.dtype.itemsize * x.shape[0] * x.shape[1] for x in matrices)
    return nbytes if held else 2 * nbytes


def product_bytes(job: Job, layout: Layout, cells: list[Cell], found: Found) -> int:
    """Count the bytes that are read to scale, and to multiply some tiles of C."""
    spec, grid, (*_, k) = layout.spec, layout.grid, layout.shape
    sizes = [x.dtype.itemsize * k for x in (job.a, job.b)]
    if not layout.streams:
        each: int = layout.reads * max(sizes) // max(k, 1)
        return each * len(cells) // max(layout.num_computed, 1)
    # Both sides of a tile on the diagonal may be the same rows.
    straight = {is_straight(side, spec.op(side)) for side in SIDES}
    same = job.a == job.b and len(straight) == 1
    total = 0
    for cell in cells:
        for i, j in spec.routine.pairs(*cell):
            total += grid.m[i] * sizes[0]
            total += 0 if same and i == j else grid.n[j] * sizes[1]
    alone = spec.native or spec.exact or spec.empty
    if alone or found.measured is not None:
        return total
    return total + look_bytes(job, held=False)
