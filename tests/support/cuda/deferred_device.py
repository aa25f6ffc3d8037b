"""A device on the host whose launches wait: each thread has a stream of its own.

What a thread launches runs when it waits, among what other threads have launched by
then, in an order drawn at random. Memory that is given back goes to the thread that
allocated it, as in CuPy's pool, and is overwritten in the order of its stream. So what
is read without a wait for who made it, or after it was given back, comes out wrong
sooner or later.
"""

import ctypes
import random
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tests.support.cuda.host import HostKernels
from tests.support.cuda.host_device import POISON, HostDevice
from twom_dist.kernels.cuda.engine import CudaEngine


class _Event:
    def __init__(self, stream: int) -> None:
        self.stream, self.happened = stream, False

    def happen(self) -> None:
        self.happened = True


class OnDevice(np.ndarray):
    """Device memory: what NumPy does with it takes its turn in the stream."""

    owner: "DeferredDevice"

    def __array_finalize__(self, of: Any) -> None:
        """Keep the device."""
        if isinstance(of, OnDevice):
            self.owner = of.owner

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **more: Any) -> Any:
        """Run what was launched before, and then this."""
        self.owner.run_own()
        if "out" in more:
            more["out"] = tuple(map(np.asarray, more["out"]))
        return getattr(ufunc, method)(*map(np.asarray, given), **more)

    def __array_function__(
        self, function: Any, types: Any, given: Any, more: Any
    ) -> Any:
        """Run what was launched before, and then this."""
        self.owner.run_own()
        return super().__array_function__(function, types, given, more)

    def copy(self, *order: Any) -> np.ndarray:
        """Run what was launched before, and copy to other memory of the device."""
        self.owner.run_own()
        out = self.owner.empty(self.shape, self.dtype)
        np.asarray(out)[...] = np.asarray(self)
        return out


class DeferredDevice(HostDevice):
    """Streams of launches that a seed interleaves."""

    def __init__(self, kernels: HostKernels, capability: int, seed: int) -> None:
        super().__init__(kernels, capability)
        self._random = random.Random(seed)
        self._streams: dict[int, deque[Callable[[], Any]]] = defaultdict(deque)
        self._free: dict[tuple[int, int], list[np.ndarray]] = defaultdict(list)
        # Reentrant: an array may be given back while this holds it.
        self._lock = threading.RLock()
        self._memory: list[np.ndarray] = []  # never given back to the host

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Hand out memory that this thread has given back, or new memory."""
        size, thread = int(np.prod(shape)) * np.dtype(dtype).itemsize, _thread()
        with self._lock:
            self.allocated.append(size)
            free = self._free[thread, size]
            if not free:
                whole = np.full(size + 512, POISON, np.uint8)
                self._memory.append(whole)
                start = -whole.ctypes.data % 512
                free.append(whole[start : start + size])
            memory = free.pop()
        # No view of `memory`, so that it is known when the last view of this goes.
        owner = (ctypes.c_char * max(1, size)).from_address(memory.ctypes.data)
        weakref.finalize(owner, self._give_back, thread, memory)
        out = np.frombuffer(owner, np.uint8, size).view(OnDevice)
        out.owner = self
        return out.view(dtype).reshape(shape)

    def _give_back(self, thread: int, memory: np.ndarray) -> None:
        with self._lock:
            self._streams[thread].append(partial(memory.fill, POISON))
            self._free[thread, memory.size].append(memory)

    def _launch(self, call: Callable[..., Any], *args: Any) -> None:
        """Put a call at the end of this thread's stream; it keeps no device memory."""
        given = [_borrow(x) if isinstance(x, OnDevice) else x for x in args]
        with self._lock:
            self._streams[_thread()].append(partial(call, *given))

    def filled(self, shape: tuple[int, ...], dtype: Any, byte: int = 0) -> np.ndarray:
        """Fill in the order of the stream."""
        out = self.empty(shape, dtype)
        self._launch(np.ndarray.fill, out.reshape(-1).view(np.uint8), byte)
        return out

    def send(self, x: np.ndarray) -> np.ndarray:
        """Copy in the order of the stream."""
        out = self.empty(x.shape, x.dtype)
        self._launch(np.copyto, out, np.array(x))
        return out

    def fetch(
        self,
        arrays: Sequence[np.ndarray],
        meanwhile: Callable[[], object] | None = None,
    ) -> list[np.ndarray]:
        """Copy in the order of the stream, and wait."""
        found = [np.empty(x.shape, x.dtype) for x in arrays]
        for x, y in zip(found, arrays, strict=True):
            self._launch(np.copyto, x, y)
        if meanwhile is not None:
            meanwhile()
        self.synchronize()
        return found

    def launch(
        self,
        module: Any,
        name: str,
        grid: Any,
        block: Any,
        args: Any,
        shared: int = 0,
    ) -> None:
        """Launch a kernel."""

        def run(*args: Any) -> None:
            HostDevice.launch(self, module, name, grid, block, args, shared)

        self._launch(run, *args)

    def launch_packed(self, *given: Any) -> None:
        """Launch a kernel of a script."""
        self._launch(super().launch_packed, *given)

    def multiply_int8(self, x: np.ndarray, y: np.ndarray, sums: np.ndarray) -> None:
        """Launch a product."""
        self._launch(super().multiply_int8, x, y, sums)

    def stream_id(self) -> int:
        """Name the stream of this thread."""
        return _thread()

    def record(self) -> "_Event":
        """Put an event at the end of this thread's stream."""
        event = _Event(_thread())
        self._launch(event.happen)
        return event

    def wait_for(self, event: "_Event") -> None:
        """Run what comes before an event before what this thread launches next."""

        def wait() -> None:
            while not event.happened:
                self._streams[event.stream].popleft()()

        self._launch(wait)

    def run_own(self) -> None:
        """Run what this thread has launched."""
        with self._lock:
            own = self._streams[_thread()]
            while own:
                own.popleft()()

    def synchronize(self) -> None:
        """Run what this thread has launched, and some of what others have."""
        super().synchronize()
        with self._lock:
            own = self._streams[_thread()]
            while own:
                streams = [x for x in self._streams.values() if x]
                self._random.choice([own, *streams]).popleft()()


def _thread() -> int:
    return threading.get_ident()


def _borrow(x: np.ndarray) -> np.ndarray:
    """View memory without keeping it."""

    class Borrowed:
        __array_interface__ = x.__array_interface__

    return np.asarray(Borrowed())


def deferred_engine(kernels: HostKernels, capability: int, seed: int) -> CudaEngine:
    """Make a CUDA engine that takes NumPy arrays, on such a device."""
    engine = CudaEngine(DeferredDevice(kernels, capability, seed))
    engine.family = "numpy"
    return engine
