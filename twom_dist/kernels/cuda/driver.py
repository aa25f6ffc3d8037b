"""Launches of a script by one call, that asks Python for nothing between them."""

import ctypes
from collections.abc import Iterable
from functools import cache
from struct import pack, unpack
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from ...typing import Array
from ..cpu.jit import instructions, kernel

ROW = 9  # words of a launch
# A CUlaunchAttribute: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, allowed.
_OVERLAPS = pack("<9Q", 6, 1, *[0] * 7)


class ProgramWriter:
    """Writes a program, launch after launch, which `run` takes as one array.

    Its words of 8 bytes: how many there are of each part; an attribute of launches, and
    the arguments of all; for each hole its word, the base that goes there, and what is
    added; bytes at which parameters begin, launch after launch; and for each launch the
    function, a CUlaunchConfig without addresses, and the first parameter.

    `overlaps`: whether launches begin before those ahead have ended, for which their
    kernels wait (`wait_for_grids`). The first one does not: what comes before it is the
    user's. Nor do those of one kernel, between which other streams get a turn.
    """

    def __init__(self, overlaps: bool = False) -> None:
        self._data, self._overlaps = bytearray(_OVERLAPS), overlaps
        self._holes: list[tuple[int, int, int]] = []
        self._offsets: list[int] = []
        self._launches: list[tuple[int, ...]] = []

    def add(
        self,
        function: int,
        sizes: Iterable[int],
        packed: tuple[bytes, tuple[int, ...]],
        holes: Iterable[tuple[int, int, int]] = (),
        waits: bool = True,
    ) -> None:
        """Add a launch, with holes at bytes of its arguments.

        `sizes`: of the grid and of a block, and bytes of shared memory; `waits`:
        whether the kernel waits for those ahead.
        """
        (data, offsets), start = packed, len(self._data)
        before = self._launches[-1][0] if self._launches else function
        attributes = int(self._overlaps and waits and before != function)
        config = unpack("<7q", pack("<7I4x2QI4x", *sizes, 0, 0, attributes))
        self._launches.append((function, *config, len(self._offsets)))
        self._holes += [((start + at) // 8, base, more) for at, base, more in holes]
        self._offsets += [start + at for at in offsets]
        self._data += data + bytes(-len(data) % 8)

    def program(self) -> Array:
        """Return what has been written."""
        rows = self._holes, self._offsets, self._launches
        parts = [np.array(x, np.int64).ravel() for x in rows]
        parts.insert(0, np.frombuffer(self._data, np.int64))
        return np.concatenate([[len(x) for x in parts], *parts])


@cache
def driver_function(name: str) -> Any:
    """Look up a function of the driver, which CuPy has loaded."""
    function = ctypes.CDLL("libcuda.so.1")[name]
    function.restype = ctypes.c_int
    return function


@cache
def launcher() -> int:
    """Return the address of what launches a kernel."""
    address = ctypes.cast(driver_function("cuLaunchKernelEx"), ctypes.c_void_p).value
    assert address is not None
    return address


@instructions(result=types.int64)
def _launch(builder, launcher, config, function, pointers):  # type: ignore[no-untyped-def]
    """Call cuLaunchKernelEx by its address; return its status."""
    word = ir.IntType(64)
    kind = ir.FunctionType(ir.IntType(32), [word] * 4)
    called = builder.inttoptr(launcher, kind.as_pointer())
    given = config, function, pointers, ir.Constant(word, 0)
    return builder.sext(builder.call(called, given), word)


@kernel
def run(launcher, stream, program, bases):  # type: ignore[no-untyped-def]
    """Fill in addresses and launch; return the status of the first that fails, or 0.

    The program is one array, since each array costs a call 0.1 us.

    Each parameter by its own pointer: given all at once, by
    CU_LAUNCH_PARAM_BUFFER_POINTER, those of products.cu came 48 bytes late, since its
    first one asks for multiples of 64 (an H200, driver 580.159.04; no error was told).
    """
    words = np.frombuffer(bases, np.int64)
    count, in_holes, parameters, rows = program[:4]
    holes = 4 + count
    offsets = holes + in_holes
    launches = count + parameters
    memory = np.empty(launches + rows, np.int64)
    start = memory.ctypes.data
    memory[:count] = program[4:holes]
    for i in range(holes, offsets, 3):
        memory[program[i]] = words[program[i + 1]] + program[i + 2]
    for i in range(parameters):
        memory[count + i] = start + program[offsets + i]
    memory[launches:] = program[offsets + parameters :]
    status = 0
    for i in range(launches, len(memory), ROW):
        # The stream, and the attribute, with which the arguments begin.
        memory[i + 5], memory[i + 6] = stream, start
        pointers = start + 8 * (count + memory[i + ROW - 1])
        status = _launch(launcher, start + 8 * (i + 1), memory[i], pointers)
        if status != 0:
            break
    # Read once more, so that it lives until here.
    memory[0] = status
    return memory[0]
