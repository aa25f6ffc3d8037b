"""Streams of CuPy: one for each thread that runs tasks, with events between them."""

import threading
from collections import defaultdict
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import Any

_numbers = count()


class Streams:
    """The streams of this process's threads, by device."""

    def __init__(self) -> None:
        import cupy

        self._cupy: Any = cupy
        self._own = _Own(defaultdict(list))

    def number(self) -> int:
        """Return the number of this thread's device."""
        return int(self._cupy.cuda.runtime.getDevice())

    def stream(self) -> AbstractContextManager[Any]:
        """Enter a stream of this thread's own, where it uses the default one.

        It is one that the default stream waits for, and that waits for the default one:
        programs of users launch there, and dask takes what they return for done.
        """
        if self._cupy.cuda.get_current_stream() != self._cupy.cuda.Stream.null:
            return nullcontext()
        return self._own.streams[self.number()]

    def stream_id(self) -> tuple[int, int, int]:
        """Name the stream that this thread launches on, and its device."""
        stream = int(self._cupy.cuda.get_current_stream().ptr)
        # One address stands for the default streams of all threads.
        shared = stream == self._cupy.cuda.runtime.streamPerThread
        return self.number(), stream, self._own.number if shared else 0

    def record(self) -> Any:
        """Record an event on the current stream."""
        event = self._cupy.cuda.Event(disable_timing=True)
        return self._cupy.cuda.get_current_stream().record(event)

    def wait_for(self, event: Any) -> None:
        """Have the current stream wait for an event."""
        self._cupy.cuda.get_current_stream().wait_event(event)

    def synchronize(self) -> None:
        """Wait for what the current stream has now."""
        # Not for what other threads may launch on the same stream meanwhile.
        self.record().synchronize()


class _Own(threading.local):
    """The streams of each thread, and a number that no other one has or had."""

    def __init__(self, spare: dict[int, list[Any]]) -> None:
        self.streams = _Streams(spare)
        self.number = next(_numbers)


class _Streams(dict[int, AbstractContextManager[Any]]):
    """The streams of one thread, by device; others get those `spare` when it ends.

    Threads that leave dask's pool come and go, and CuPy keeps memory by stream.
    """

    def __init__(self, spare: dict[int, list[Any]]) -> None:
        self._spare = spare

    def __missing__(self, device: int) -> AbstractContextManager[Any]:
        import cupy

        try:
            self[device] = self._spare[device].pop()
        except IndexError:
            self[device] = cupy.cuda.Stream()
        return self[device]

    def __del__(self) -> None:
        for device, stream in self.items():
            self._spare[device].append(stream)
