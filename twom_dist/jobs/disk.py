"""Tasks at a disk: another task of their process computes meanwhile.

As many as compute may leave their thread for a disk. The next ones keep it, so that no
more tiles wait to be written than plans allow for.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock, local
from typing import Any
from weakref import WeakKeyDictionary

# Smaller blocks are there, by reasoning, before dask has begun another task.
LEAST_BYTES = 2**22

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
                # dask takes it for begun, though it has waited for a core.
                raise CancelledError
            return task(*args)
        finally:
            if _own.cores is not None:
                self.leave()

    def leave(self) -> None:
        """Leave the core of this thread's task to another one."""
        _own.cores = None
        self._cores.release()
