"""Threads of a product: a loop cut into ranges over a small shared pool."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import Any, TypeVar

import numpy as np

from ...config import integer_setting, setting
from ...typing import Array

T = TypeVar("T")

# Nanoseconds of work that are worth another thread. Products of 32, 64, 128, 256 and
# 512 rows took 0.59, 0.73, 0.92, 0.97 and 1.00 of the time with 1 (medians of one run;
# AMD EPYC, 2 cores).
WORTHWHILE = 100_000

_local = threading.local()


def available_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def num_threads() -> int:
    """Threads of the current product: the limit set here, else `twom-dist.threads`."""
    limit: int | None = getattr(_local, "threads", None)
    if limit is not None:
        return limit
    return configured_threads() or available_cores()


def configured_threads() -> int | None:
    """Read `twom-dist.threads`."""
    return None if setting("threads") is None else integer_setting("threads")


def task_threads() -> int | None:
    """Threads of one dask task: one where other tasks may run beside it."""
    alone = threading.current_thread() is threading.main_thread()
    return configured_threads() or (None if alone else 1)


@contextmanager
def limit_threads(threads: int | None) -> Iterator[None]:
    """Bound the threads of products started in this thread; None changes nothing."""
    before = getattr(_local, "threads", None)
    if threads is not None:
        _local.threads = threads
    try:
        yield
    finally:
        _local.threads = before


@contextmanager
def run_task() -> Iterator[None]:
    """Bound the threads to a task's share; `in_task` is true meanwhile."""
    before, _local.task = in_task(), True
    try:
        with limit_threads(task_threads()):
            yield
    finally:
        _local.task = before


def in_task() -> bool:
    """Tell whether this thread runs a task of dask."""
    return getattr(_local, "task", False)


def scratch(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return this thread's scratch array, whatever it holds, valid until the next call.

    Fresh pages cost as much as the kernel that fills them.
    """
    size = prod(shape)
    buffer = getattr(_local, "scratch", None)
    if buffer is None or buffer.dtype != dtype or buffer.size < size:
        buffer = _local.scratch = np.empty(size, dtype)
    return buffer[:size].reshape(shape)


class _Pool:
    """The threads of a process: as many as any of its products has asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._size = 0
        self._executor: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[[], object], copies: int) -> list[Future[object]]:
        """Have up to `copies` threads do the work beside the caller."""
        with self._lock:
            executor = self._executor
            if executor is None or copies > self._size:
                if executor is not None:
                    # Its threads finish what they were given, and end.
                    executor.shutdown(wait=False)
                executor = ThreadPoolExecutor(copies, thread_name_prefix="twom-dist")
                self._executor, self._size = executor, copies
            return [executor.submit(work) for _ in range(copies)]


@cache
def _pool(pid: int) -> _Pool:
    # Keyed by pid: a forked child must not wait on its parent's threads, or its lock.
    return _Pool()


def run_each(function: Callable[[T], object], items: Iterable[T]) -> None:
    """Call function on every item, side by side where more than one thread may run.

    The calling thread works too, and all take the next item from one iterator.
    """
    items = list(items)
    # Settings are not read for what one thread does: a small product has 25 loops.
    if len(items) <= 1 or (threads := min(num_threads(), len(items))) == 1:
        for item in items:
            function(item)
        return
    rest = iter(items)

    def work() -> None:
        for item in rest:
            function(item)

    others = _pool(os.getpid()).submit(work, threads - 1)
    try:
        work()
    finally:
        # An error here leaves no thread at work on arrays that are given up.
        for _ in rest:
            pass
        # Nor is anything waited for that a busy pool has not begun.
        begun = [other for other in others if not other.cancel()]
        wait(begun)
    for other in begun:
        other.result()


def run_pieces(
    function: Callable[[slice], object], count: int, fewest: int, most: int
) -> None:
    """Call function for pieces of 0..count of `fewest` to `most`, a thread for each.

    Where they are too few, one after the other has all the threads.
    """
    threads = num_threads()
    step = max(1, min(most, max(fewest, -(-count // (4 * threads)))))
    pieces = [slice(lo, min(lo + step, count)) for lo in range(0, count, step)]

    def work(piece: slice) -> None:
        with limit_threads(threads if len(pieces) < 2 * threads else 1):
            function(piece)

    if threads > 1 and len(pieces) < 2 * threads:
        for piece in pieces:
            work(piece)
    else:
        run_each(work, pieces)


def ranges(length: int, *, smallest: int = 1, each: int = 1) -> list[tuple[int, int]]:
    """Cut 0..length into a few ranges per thread, none below `smallest` but the last.

    `each`: roughly the nanoseconds that an item takes; a range takes `WORTHWHILE`.

    Examples
    --------
    >>> with limit_threads(1):
    ...     ranges(10)
    [(0, 10)]
    >>> with limit_threads(2):
    ...     ranges(10, each=20_000)
    [(0, 5), (5, 10)]
    """
    least = max(smallest, -(-WORTHWHILE // max(1, each)))
    if length <= least:
        return [(0, length)] if length > 0 else []
    threads = num_threads()
    pieces = 1 if threads == 1 else 4 * threads
    step = max(least, -(-length // pieces))
    return [(lo, min(lo + step, length)) for lo in range(0, length, step)]
