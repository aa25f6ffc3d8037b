"""CUDA graphs of calls whose arrays lie where they have lain before.

A replay launches all kernels of a call by one call of the driver.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

# Calls of one object that are kept, and addresses that are remembered.
_MOST, _MOST_SEEN = 16, 1024


class Graphs:
    """The graphs of one object on a device, in one memory: each waits for the last one.

    The first call with some addresses runs as it is, the second one is captured.
    """

    def __init__(self) -> None:
        import cupy

        # The legacy stream cannot be captured.
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._done = cupy.cuda.Event(disable_timing=True)
        self._graphs: OrderedDict[Hashable, Any] = OrderedDict()
        self._seen: set[Hashable] = set()
        self._lock = Lock()

    def run(self, key: Hashable, compute: Callable[[], object]) -> None:
        """Compute, or replay; `key` says where all arrays lie, the result as well."""
        import cupy

        current = cupy.cuda.get_current_stream()
        if current.is_capturing():
            compute()
            return
        with self._lock:
            current.wait_event(self._done)
            try:
                self._launch(key, compute, current)
            finally:
                # After an error as well: what was launched before uses the same memory.
                self._done.record(current)

    def _launch(
        self, key: Hashable, compute: Callable[[], object], current: Any
    ) -> None:
        graph = self._graphs.get(key)
        if graph is not None:
            self._graphs.move_to_end(key)
            graph.launch(current)
        elif key in self._seen:
            self._capture(key, compute, current)
        else:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen.add(key)
            compute()

    def _capture(
        self, key: Hashable, compute: Callable[[], object], current: Any
    ) -> None:
        """Compute once more on the own stream, which allocates there, and capture."""
        with self._stream as own:
            own.wait_event(current.record())
            try:
                compute()
                own.begin_capture()
                try:
                    compute()
                finally:
                    graph = own.end_capture()
            finally:
                current.wait_event(own.record())
        self._graphs[key] = graph
        if len(self._graphs) > _MOST:
            # It may be running: the host waits before it goes.
            self._stream.synchronize()
            current.synchronize()
            self._graphs.popitem(last=False)
