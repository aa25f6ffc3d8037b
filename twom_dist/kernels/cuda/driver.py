"""Launches of a script by one call, that asks Python for nothing between them."""

import ctypes
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from ...typing import Array
from ..cpu.jit import instructions, kernel

ROW = 9  # words of a launch


class ProgramWriter:
    """Writes a program, launch after launch, which `run` takes as one array.

    Its words of 8 bytes: how many there are of each part; the arguments of all
    launches; for each hole its word, the base that goes there, and what is added; bytes
    at which parameters begin, launch after launch; and for each launch the function,
    grid, block, bytes of shared memory, and first parameter.
    """

    def __init__(self) -> None:
        self._data = bytearray()
        self._holes: list[tuple[int, int, int]] = []
        self._offsets: list[int] = []
        self._launches: list[tuple[int, ...]] = []

    def add(
        self,
        function: int,
        sizes: Iterable[int],
        packed: tuple[bytes, tuple[int, ...]],
        holes: Iterable[tuple[int, int, int]] = (),
    ) -> None:
        """Add a launch, with holes at bytes of its arguments.

        `sizes`: of the grid and of a block, and bytes of shared memory.
        """
        (data, offsets), start = packed, len(self._data)
        self._launches.append((function, *sizes, len(self._offsets)))
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
    address = ctypes.cast(driver_function("cuLaunchKernel"), ctypes.c_void_p).value
    assert address is not None
    return address


@instructions(result=types.int64)
def _launch(builder, launcher, row, stream, pointers):  # type: ignore[no-untyped-def]
    """Call cuLaunchKernel by its address, with a row of launches; return its status."""
    word, short = ir.IntType(64), ir.IntType(32)
    kind = ir.FunctionType(short, [word, *[short] * 7, word, word, word])
    places = [ir.Constant(word, i) for i in range(8)]
    row = builder.inttoptr(row, word.as_pointer())
    function, *sizes = (builder.load(builder.gep(row, [at])) for at in places)
    sizes = [builder.trunc(x, short) for x in sizes]
    given = function, *sizes, stream, pointers, ir.Constant(word, 0)
    called = builder.inttoptr(launcher, kind.as_pointer())
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
    count, in_holes, parameters, _ = program[:4]
    holes = 4 + count
    offsets = holes + in_holes
    launches = offsets + parameters
    memory = np.empty(count + parameters, np.int64)
    start = memory.ctypes.data
    memory[:count] = program[4:holes]
    for i in range(holes, offsets, 3):
        memory[program[i]] = words[program[i + 1]] + program[i + 2]
    for i in range(parameters):
        memory[count + i] = start + program[offsets + i]
    status = 0
    for i in range(launches, len(program), ROW):
        pointers = start + 8 * (count + program[i + ROW - 1])
        row = program.ctypes.data + 8 * i
        status = _launch(launcher, row, stream, pointers)
        if status != 0:
            break
    # Read once more, so that it lives until here.
    memory[0] = status
    return memory[0]
