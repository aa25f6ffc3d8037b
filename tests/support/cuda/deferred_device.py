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
from functools import partial
from threading import get_ident

import numpy as np

from tests.support.cuda.host_device import POISON, HostDevice
from twom_dist.kernels.cuda.engine import CudaEngine


class OnDevice(np.ndarray):
    """Device memory: what NumPy does with it takes its turn in the stream."""

    def __array_finalize__(self, of):
        if isinstance(of, OnDevice):
            self.owner = of.owner

    def __array_ufunc__(self, ufunc, method, *given, **more):
        self.owner.run_own()
        if "out" in more:
            more["out"] = tuple(map(np.asarray, more["out"]))
        return getattr(ufunc, method)(*map(np.asarray, given), **more)

    def __array_function__(self, function, types, given, more):
        self.owner.run_own()
        return super().__array_function__(function, types, given, more)

    def copy(self, *order):
        self.owner.run_own()
        out = self.owner.empty(self.shape, self.dtype)
        np.asarray(out)[...] = np.asarray(self)
        return out


class DeferredDevice(HostDevice):
    """Streams of launches that a seed interleaves."""

    def __init__(self, kernels, capability, seed):
        super().__init__(kernels, capability)
        self._random = random.Random(seed)
        self._streams, self._free = defaultdict(deque), defaultdict(list)
        # Reentrant: an array may be given back while this holds it.
        self._lock = threading.RLock()
        self._memory = []  # never given back to the host

    def empty(self, shape, dtype):
        size, thread = int(np.prod(shape)) * np.dtype(dtype).itemsize, get_ident()
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

    def _give_back(self, thread, memory):
        with self._lock:
            self._streams[thread].append(partial(memory.fill, POISON))
            self._free[thread, memory.size].append(memory)

    def _launch(self, call, *args):
        """Put a call at the end of this thread's stream; it keeps no device memory."""
        given = [_borrow(x) if isinstance(x, OnDevice) else x for x in args]
        with self._lock:
            self._streams[get_ident()].append(partial(call, *given))

    def full(self, shape, dtype, byte=0):
        out = self.empty(shape, dtype)
        self._launch(np.ndarray.fill, out.reshape(-1).view(np.uint8), byte)
        return out

    def send(self, x):
        out = self.empty(x.shape, x.dtype)
        self._launch(np.copyto, out, np.array(x))
        return out

    def fetch(self, arrays, meanwhile=None):
        found = [np.empty(x.shape, x.dtype) for x in arrays]
        for x, y in zip(found, arrays, strict=True):
            self._launch(np.copyto, x, y)
        if meanwhile is not None:
            meanwhile()
        self.synchronize()
        return found

    def launch(self, module, name, grid, block, args, shared=0):
        run, given = super().launch, (module, name, grid, block)
        self._launch(lambda *args: run(*given, args, shared), *args)

    def launch_packed(self, *given):
        self._launch(super().launch_packed, *given)

    def multiply(self, x, y, sums):
        self._launch(super().multiply, x, y, sums)

    def stream_id(self):
        return get_ident()

    def record(self):
        happened = threading.Event()
        self._launch(happened.set)
        return get_ident(), happened

    def wait_for(self, event):
        """Run what comes before an event before what this thread launches next."""

        def wait():
            stream, happened = event
            while not happened.is_set():
                self._streams[stream].popleft()()

        self._launch(wait)

    def run_own(self):
        with self._lock:
            own = self._streams[get_ident()]
            while own:
                own.popleft()()

    def synchronize(self):
        """Run what this thread has launched, and some of what others have."""
        super().synchronize()
        with self._lock:
            own = self._streams[get_ident()]
            while own:
                streams = [x for x in self._streams.values() if x]
                self._random.choice([own, *streams]).popleft()()


def _borrow(x):

    class Borrowed:
        __array_interface__ = x.__array_interface__

    return np.asarray(Borrowed())


def deferred_engine(kernels, capability, seed):
    engine = CudaEngine(DeferredDevice(kernels, capability, seed))
    engine.family = "numpy"
    return engine
