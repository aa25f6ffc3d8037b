"""Computation of the tiles of a wave; tasks that wait for a disk free their core."""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import BoundedSemaphore, Lock, local
from typing import Any
from weakref import WeakKeyDictionary

import dask

from ..typing import Cell
from .watchdog import Watch, ask, start

LEAST_BYTES = 2**22  # by reasoning, smaller blocks are there before another task begins

_own = local()
_lock = Lock()
# For each worker of this process the tasks that may leave their threads.
_places: "WeakKeyDictionary[Any, BoundedSemaphore]" = WeakKeyDictionary()


@contextmanager
def at_disk(nbytes: int) -> Iterator[None]:
    """Give this task's core to another one, if few have done so, to the task's end.

    The place at the disk is free again on leaving: little should follow.
    """
    places, leave = _find_places()
    if nbytes < LEAST_BYTES or places is None or not places.acquire(blocking=False):
        yield
        return
    try:
        leave()
        yield
    finally:
        places.release()


def _find_places() -> tuple[BoundedSemaphore | None, Callable[[], None]]:
    """Find the places at the disk of who runs this task, and how to go there."""
    cores = getattr(_own, "cores", None)
    if cores is not None:
        return cores.at_disk, cores.leave
    pool = sys.modules.get("distributed.threadpoolexecutor")
    # Threads of other executors, and those that have left dask's, cannot leave it.
    if pool is None or not getattr(pool.thread_state, "proceed", False):
        return None, lambda: None
    # A worker that closes holds this lock until its tasks end, or it has waited enough.
    if not pool.threads_lock.acquire(blocking=False):
        return None, lambda: None
    pool.threads_lock.release()
    from distributed import get_worker, secede

    worker = get_worker()
    with _lock:
        if worker not in _places:
            _places[worker] = BoundedSemaphore(worker.state.nthreads)
        return _places[worker], secede


class Cores(ThreadPoolExecutor):
    """Threads of which as many compute as there are cores, the others at the disk.

    `writes`: whether an error on leaving waits for the tasks under way.
    """

    def __init__(self, cores: int, *, writes: bool = False) -> None:
        super().__init__(2 * cores)
        self._cores, self.at_disk = BoundedSemaphore(cores), BoundedSemaphore(cores)
        self._writes, self._failed = writes, False

    def __exit__(self, kind: Any, *_: Any) -> None:
        """End; after an error without what has not begun."""
        self._failed = kind is not None
        waits = self._writes or not self._failed
        self.shutdown(wait=waits, cancel_futures=self._failed)

    def submit(  # type: ignore[override]
        self, task: Callable[..., Any], *args: Any
    ) -> Any:
        """Run a task on a core; dask names no argument."""
        return super().submit(self._run, task, *args)

    def _run(self, task: Callable[..., Any], *args: Any) -> Any:
        self._cores.acquire()
        _own.cores = self
        try:
            if self._failed:
                # dask counts it as started, though it has waited for a core.
                raise CancelledError
            return task(*args)
        finally:
            if _own.cores is not None:
                self.leave()

    def leave(self) -> None:
        """Leave the core of this thread's task to another one."""
        _own.cores = None
        self._cores.release()


# Longest wait to cancel tasks after an error, which may be the scheduler's. Tasks that
# go on do no harm: they write what a later run would, or find their array gone.
CANCEL_SECONDS = 1.0
Done = Callable[[int, int], None]  # called with the index of a tile


def compute_wave(
    tasks: Any, cells: list[Cell], client: Any, threads: int, done: Done
) -> None:
    """Run the tasks of tiles on a client, or else in threads, and report each tile."""

    def count(key: Any, *_: Any) -> None:
        if isinstance(key, tuple) and key[0] == tasks.name:
            done(*cells[key[1]])

    if client is not None:
        return _collect(tasks, client, lambda future: count(future.key))

    from dask.callbacks import Callback

    with Cores(threads, writes=True) as pool, Callback(posttask=count):
        # Not `compute`, which may fuse a single tile with its own last task.
        tasks.persist(scheduler="threads", pool=pool)


def compute_value(delayed: Any, client: Any, threads: int) -> Any:
    """Compute one value on a client, or else in threads."""
    if client is None:
        with Cores(threads) as pool:
            return delayed.compute(scheduler="threads", pool=pool)
    found: list[Any] = []
    _collect(delayed, client, lambda future: found.append(ask(future.result)))
    return found[0]


def persist(collections: Sequence[Any], client: Any, threads: int) -> Any:
    """Begin to compute what is to stay on a client's workers; compute it in threads."""
    if client is None:
        with Cores(threads) as pool:
            return dask.persist(*collections, scheduler="threads", pool=pool)
    try:
        return client.persist(collections)
    except BaseException:
        # Not by force: another job may have the same inputs.
        with suppress(Exception):
            start(client.cancel, collections).result(CANCEL_SECONDS)
        raise


def _collect(collection: Any, client: Any, done: Callable[[Any], None]) -> None:
    from distributed import futures_of

    watch = Watch(client)
    ended: SimpleQueue[Any] = SimpleQueue()
    futures = futures_of(client.persist(collection))
    try:
        for future in futures:
            future.add_done_callback(ended.put)
        for _ in futures:
            future = watch.next_done(ended)
            done(future)
            future.release()  # the workers may forget the tile now
    except BaseException:
        with suppress(Exception):
            start(client.cancel, futures, force=True).result(CANCEL_SECONDS)
        raise
