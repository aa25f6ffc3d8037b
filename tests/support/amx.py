"""AMX on a CPU without it: its instructions trap, and a handler of signals runs them.

So the text that llvmlite assembles is what is tested, registers and addresses included.
The handler is compiled by Numba: the kernels that trap have let go of Python's lock.
Every thread has its own tiles.

Bochs emulates a whole machine with AMX. It needs kernels that were compiled here for
its CPU: before Numba is imported, let `get_host_cpu_name` and `get_host_cpu_features`
of `llvmlite.binding` return the guest's values; compile each signature listed in
`__pycache__/*.nbi`, run none, and copy the cache. Compare digests of results made
here by another CPU. As of July 2026 Bochs has to be mended: signed bytes of
`tdpbssd`, XFD, and the layout of saved tiles. Linux wants `nopcid idle=nomwait
clearcpuid=580` there, and no `mwait`.
"""

import ctypes
import signal
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
from llvmlite import ir
from numba import cfunc, njit, types
from numba.extending import intrinsic

from tests.support.skips import is_x86_linux
from twom_dist.kernels.cpu.units import refuse_amx

# Words of `ucontext_t` (Linux, x86-64) with rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8,
# ..., r15, as instructions number them, and rip.
_REGISTERS = (18, 19, 17, 16, 20, 15, 14, 13, *range(5, 13))
_RIP = 21
_THREADS, _TILES, _ROWS, _LINE = 64, 8, 16, 64

# Threads met so far: how many, and which; the rows and bytes a row of each tile.
_threads = np.zeros(1 + _THREADS, np.int64)
_shapes = np.zeros((_THREADS, _TILES, 2), np.int64)
_tiles = np.zeros((_THREADS, _TILES, _ROWS, _LINE), np.int8)
# A kernel must not see arrays here as constants.
_IDS, _SHAPES, _DATA = (x.ctypes.data for x in (_threads, _shapes, _tiles))
_LIBC, _IS_NATIVE = ctypes.CDLL(None), refuse_amx() is None


def _pointer(kind):
    @intrinsic
    def point(typing_context, address):

        def generate(context, builder, signature, args):
            to = context.get_value_type(kind).as_pointer()
            return builder.inttoptr(args[0], to)

        return types.CPointer(kind)(types.int64), generate

    return point


_bytes, _signed, _halves, _sums, _words = (
    _pointer(t)
    for t in (types.uint8, types.int8, types.uint16, types.int32, types.int64)
)


@intrinsic
def _count_up(typing_context, address):
    """Add 1 to a number that other threads may add to; return the old one."""

    def generate(context, builder, signature, args):
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw(
            "add", place, ir.Constant(ir.IntType(64), 1), "seq_cst"
        )

    return types.int64(types.int64), generate


_pthread_self = types.ExternalFunction("pthread_self", types.int64())


@njit
def _own_place():
    own, known = _pthread_self(), _words(_IDS)
    for place in range(min(known[0], _THREADS)):
        if known[1 + place] == own:
            return place
    place = _count_up(_IDS)
    if place < _THREADS:
        known[1 + place] = own
    return place


@njit
def _address(context, rip, start):
    """Decode base, index times scale and displacement; the bytes they take."""
    code, registers = _bytes(rip), _words(context)
    low, mode, second = code[start] & 7, code[start] >> 6, code[1]
    length, scale, index = 1, 0, 0
    base = low
    if low == 4:
        base, scale = code[start + 1] & 7, 1 << (code[start + 1] >> 6)
        index = (code[start + 1] >> 3 & 7) + (0 if second & 0x40 else 8)
        length = 2
    base += 0 if second & 0x20 else 8
    offset = np.int64(0)
    if mode == 1:
        offset = np.int64(_signed(rip)[start + length])
        length += 1
    elif mode == 2:
        offset = np.int64(_sums(rip + start + length)[0])
        length += 4
    stride = registers[_REGISTERS[index]] * scale
    return registers[_REGISTERS[base]] + offset, stride, length


@njit
def _multiply(data, shapes, out, left, right):
    """out += left right, four neighbours of a row by those of a word at once."""
    for m in range(shapes[2 * out]):
        sums = _sums(data + (out * _ROWS + m) * _LINE)
        x = _signed(data + (left * _ROWS + m) * _LINE)
        for k in range(shapes[2 * left + 1] // 4):
            y = _signed(data + (right * _ROWS + k) * _LINE)
            for n in range(shapes[2 * out + 1] // 4):
                total = np.int32(0)
                for t in range(4):
                    total += np.int32(x[4 * k + t]) * np.int32(y[4 * n + t])
                sums[n] += total


@njit
def _run(context):
    """Run the instruction that trapped; return -1 if it is none of AMX's."""
    registers = _words(context)
    rip = registers[_RIP]
    code = _bytes(rip)
    # VEX with three bytes, of opcodes 0F 38, whose vectors have 128 bits.
    if code[0] != 0xC4 or code[1] & 0x1F != 2 or code[2] & 0x84 != 0:
        return -1
    prefix, operand = code[2] & 3, code[2] >> 3 & 15 ^ 15
    opcode, last = code[3], code[4]
    place = _own_place()
    if place >= _THREADS:
        return -1
    shapes = _words(_SHAPES + 16 * _TILES * place)
    data = _DATA + _TILES * _ROWS * _LINE * place
    tile, length, found = last >> 3 & 7, 5, -1
    if opcode == 0x49 and prefix == 0 and last == 0xC0:
        found = 1
        for t in range(2 * _TILES):
            shapes[t] = 0
    elif opcode == 0x49 and prefix == 0:
        address, _, taken = _address(context, rip, 4)
        given, found, length = _bytes(address), 0, 4 + taken
        if given[0] != 1:
            return -1
        for t in range(_TILES):
            shapes[2 * t] = given[48 + t]
            shapes[2 * t + 1] = _halves(address + 16)[t]
        for t in range(_TILES * _ROWS * _LINE // 8):
            _words(data)[t] = 0
    elif opcode == 0x49 and prefix == 3:
        found = 2
        for t in range(_ROWS * _LINE // 8):
            _words(data + tile * _ROWS * _LINE)[t] = 0
    elif opcode == 0x4B:
        address, stride, taken = _address(context, rip, 4)
        found, length = 3 if prefix == 3 else 4, 4 + taken
        for r in range(shapes[2 * tile]):
            own, other = _bytes(data + (tile * _ROWS + r) * _LINE), _bytes(address)
            source, target = (other, own) if prefix == 3 else (own, other)
            for c in range(shapes[2 * tile + 1]):
                target[c] = source[c]
            address += stride
    elif opcode == 0x5E and prefix == 3:
        found = 5
        _multiply(data, shapes, tile, last & 7, operand)
    # A tile that is not configured has no rows.
    if found < 0 or (found > 1 and shapes[2 * tile] == 0):
        return -1
    registers[_RIP] += length
    return found


_kept = np.zeros(20, np.int64)  # the handler before
_KEPT = _kept.ctypes.data
_sigaction = types.ExternalFunction(
    "sigaction", types.int32(types.int32, types.int64, types.int64)
)


@cache
def _handler():

    @cfunc(types.void(types.int32, types.int64, types.int64))
    def handle(number, information, context):
        if _run(context) < 0:
            # The instruction is run again, as if nobody had been here.
            _sigaction(number, _KEPT, 0)

    return handle


@contextmanager
def run_amx():
    """Let this process run AMX's instructions, in any of its threads."""
    if not is_x86_linux():
        pytest.skip("only Linux on x86 has signals for AMX's instructions")
    if _IS_NATIVE:
        yield
        return
    action = np.zeros(20, np.int64)  # handler, 128 bytes of mask, flags
    action[0], action[17] = _handler().address, 4  # SA_SIGINFO
    _LIBC.sigaction(
        signal.SIGILL, ctypes.c_void_p(action.ctypes.data), ctypes.c_void_p(_KEPT)
    )
    _threads[:] = 0
    try:
        yield
    finally:
        _LIBC.sigaction(signal.SIGILL, ctypes.c_void_p(_KEPT), None)
