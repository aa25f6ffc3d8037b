"""Threads of a product: a loop cut into ranges over a small shared pool."""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

from ...config import integer_setting, setting
from ...typing import Array

T = TypeVar("T")

# Nanoseconds of work that are worth another thread. Products of 32, 64, 128, 256 and
# 512 rows took 0.59, 0.73, 0.92, 0.97 and 1.00 of the time with 1 (medians of one run;
# AMD EPYC, 2 cores).
WORTHWHILE = 100_000


class _Local(threading.local):
    """Settings of a thread; what it does not set itself it finds in the class."""

    threads: int | None = None
    task = False
    scratch = np.empty(0, np.int8)


_local = _Local()


def available_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def num_threads() -> int:
    """Threads of the current product: the limit set here, else `twom-dist.threads`."""
    return _local.threads or configured_threads() or available_cores()


def configured_threads() -> int | None:
    """Read `twom-dist.threads`."""
    return None if setting("threads") is None else integer_setting("threads")


class limit_threads:  # noqa: N801
    """Bound the threads of products started in this thread; None changes nothing."""

    # A generator would take twice as long, in each small product.
    __slots__ = ("_before", "_threads")

    def __init__(self, threads: int | None) -> None:
        self._threads = threads

    def __enter__(self) -> None:
        self._before = _local.threads
        if self._threads is not None:
            _local.threads = self._threads

    def __exit__(self, *error: object) -> None:
        _local.threads = self._before


@contextmanager
def run_task() -> Iterator[None]:
    """Bound the threads to a task's share; `in_task` is true meanwhile."""
    before, _local.task = in_task(), True
    # One where other tasks may run beside it.
    alone = threading.current_thread() is threading.main_thread()
    try:
        with limit_threads(configured_threads() or (None if alone else 1)):
            yield
    finally:
        _local.task = before


def in_task() -> bool:
    """Tell whether this thread runs a task of dask."""
    return _local.task


def scratch(size: int, dtype: np.dtype[Any]) -> Array:
    """Return this thread's scratch, `size` numbers or more, until the next call.

    It holds anything. Fresh pages cost as much as the kernel that fills them.
    """
    buffer = _local.scratch
    if buffer.dtype != dtype or buffer.size < size:
        buffer = _local.scratch = np.empty(size, dtype)
    return buffer


# Returns the number of the core that runs the calling thread, on Linux.
_this_core: Callable[[], int] | None = None
if sys.platform == "linux":
    _this_core = getattr(ctypes.PyDLL(None), "sched_getcpu", None)


def _keep_off_this_core(helpers: Iterable[int]) -> set[int] | None:
    """Have sleeping threads wake on other cores; return all that this one may use.

    `helpers`: as the system numbers them. Linux may wake a thread on the core of who
    wakes it, since idle cores of a virtual machine look taken. There it waits for its
    turn, which comes 2 ms later, and again in the next loop: products of 512 took 8.0
    to 9.5 ms after a pause, and take 6.9 to 7.6 (AMD EPYC, family 26, 2 cores).
    """
    if _this_core is None:
        return None
    cores = None
    with suppress(OSError):  # a sandbox may forbid it
        cores = os.sched_getaffinity(0)
        others = cores - {_this_core()} or cores
        for helper in helpers:
            os.sched_setaffinity(helper, others)
    return cores


class _Loop:
    """A loop whose threads take the next item from one iterator."""

    def __init__(self, function: Callable[[T], object], items: list[T]) -> None:
        self._function, self._rest = function, iter(items)
        self._lock, self._done = threading.Lock(), threading.Lock()
        self._done.acquire()
        self._threads = 1
        # Helping threads may run on the cores of the caller.
        self.cores: set[int] | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Work until nothing is left, and wait for who has begun to help."""
        try:
            self._work()
        finally:
            self._leave()
            self._done.acquire()
            # A busy pool may come to this loop when arrays should be gone.
            del self._function
        if self._error is not None:
            raise self._error

    def help(self) -> None:
        """Work next to the caller, unless all have left."""
        with self._lock:
            if self._threads == 0:
                return
            self._threads += 1
        try:
            if self.cores is not None:
                with suppress(OSError):
                    os.sched_setaffinity(0, self.cores)
            self._work()
        except BaseException as error:
            self._error = error
        finally:
            self._leave()

    def _work(self) -> None:
        for item in self._rest:
            self._function(item)

    def _leave(self) -> None:
        # An error leaves no thread at work on arrays that are given up.
        for _ in self._rest:
            pass
        with self._lock:
            self._threads -= 1
            if self._threads == 0:
                self._done.release()


class _Pool:
    """The threads of a process: as many as any of its products has asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._helpers: list[int] = []
        # Futures would take ten times as long as a queue: a product has three loops.
        self._loops: SimpleQueue[_Loop] = SimpleQueue()

    def hand_over(self, loop: _Loop, copies: int) -> None:
        """Have up to `copies` threads help."""
        with self._lock:
            for i in range(len(self._helpers), copies):
                name = f"twom-dist-{i}"
                helper = threading.Thread(target=self._serve, name=name, daemon=True)
                helper.start()
                assert helper.native_id is not None
                self._helpers.append(helper.native_id)
        loop.cores = _keep_off_this_core(self._helpers)
        for _ in range(copies):
            self._loops.put(loop)

    def _serve(self) -> None:
        while True:
            self._loops.get().help()


@cache
def _pool(pid: int) -> _Pool:
    # Keyed by pid: a forked child must not wait on its parent's threads, or its lock.
    return _Pool()


def run_each(
    function: Callable[[T], object], items: Iterable[T], work: int | None = None
) -> None:
    """Call function on every item, side by side where more than one thread may run.

    The calling thread works too, and all take the next item from one iterator. `work`:
    roughly the nanoseconds of all items, where a thread may take longer to wake.
    """
    items = items if isinstance(items, list) else list(items)
    # Settings are not read for what one thread does.
    threads = len(items) if work is None else min(len(items), work // WORTHWHILE)
    if threads <= 1 or (threads := min(num_threads(), threads)) == 1:
        for item in items:
            function(item)
        return
    loop = _Loop(function, items)
    _pool(os.getpid()).hand_over(loop, threads - 1)
    loop.run()


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


def ranges(
    length: int, *, smallest: int = 1, each: int = 1, threads: int | None = None
) -> list[tuple[int, int]]:
    """Cut 0..length into a few ranges per thread, none below `smallest` but the last.

    `each`: roughly the nanoseconds that an item takes; a range takes `WORTHWHILE`.
    `threads`: as many as the product has, if not given.

    >>> with limit_threads(1):
    ...     ranges(10)
    [(0, 10)]
    >>> with limit_threads(2):
    ...     ranges(10, each=20_000)
    [(0, 5), (5, 10)]
    """
    least = max(smallest, -(-WORTHWHILE // max(1, each)))
    if length < 2 * least:
        return [(0, length)] if length > 0 else []
    if threads is None:
        threads = num_threads()
    pieces = 1 if threads == 1 else min(4 * threads, length // least)
    # As many for each thread, and as long: of 34 products, which 17 moduli take, 7
    # pieces of 5 kept one of two threads busy for 20.
    pieces -= pieces % threads if pieces > threads else 0
    step, longer = divmod(length, pieces)
    ends = [i * step + min(i, longer) for i in range(pieces + 1)]
    return list(pairwise(ends))
