"""Things that a thread's stream may still read, kept until the thread has waited.

Memory that is given back belongs to the stream that allocated it, at once: CuPy's pool
does not know who reads it (cupy/cupy#8068). While all threads share one stream, what
is written next comes after what is read; threads with streams of their own
(CUPY_CUDA_PER_THREAD_DEFAULT_STREAM) share planes through the cache alone.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class PlanesInUse(threading.local):
    """Things of the task that runs in this thread; None outside of tasks."""

    things: list[Any] | None = None

    def add(self, thing: Any) -> None:
        """Keep a thing, if there is a task."""
        if self.things is not None:
            self.things.append(thing)

    def clear(self) -> None:
        """Keep nothing of before."""
        if self.things:
            self.things.clear()

    @contextmanager
    def until(self, wait: Callable[[], None]) -> Iterator[None]:
        """Keep things while a block runs, and until its end has been waited for."""
        outer, self.things = self.things, []
        try:
            yield
        except BaseException as error:
            try:
                wait()
            except Exception as later:  # of what the block launched before
                raise error from later
            raise
        else:
            wait()
        finally:
            self.things = outer
