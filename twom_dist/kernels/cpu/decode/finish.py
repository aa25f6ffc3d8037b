"""Numbers times powers of two, written as a result: where nothing else happens to them.

In LLVM's own language through Numba: they pass through registers once.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..compiled import inner
from ..products.microkernel import Writer
from ..width import take_widest
from .sums import LANES, NUMBER

_ADDRESS, _WORD = ir.IntType(64), ir.IntType(32)
_BIAS, _FRACTION = 1023, 52  # of the exponents of float64


def _finisher(lanes: int) -> Any:
    """Make the kernel for so many entries."""

    @intrinsic
    def finish(
        typing_context: Any,
        v: Any,
        line: Any,
        parts: Any,
        columns: Any,
        row: Any,
        out: Any,
        zero: Any,
    ) -> Any:
        signature = types.void(*(types.intp,) * 6, zero)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _write_finish(builder, lanes, *args)
            return context.get_dummy_value()

        return signature, generate

    return finish


def _write_finish(
    builder: Any,
    lanes: int,
    v: Any,
    line: Any,
    parts: Any,
    columns: Any,
    row: Any,
    out: Any,
    zero: Any,
) -> None:
    """Write v[part] 2^-(row + columns), parts side by side, in the type of `zero`.

    The parts of v are `line` bytes apart; the power is a normal number.
    """
    write, numbers = Writer(builder, lanes), ir.VectorType(NUMBER, lanes)
    long = ir.VectorType(_ADDRESS, lanes)
    exponents = write.load(columns, 0, long)
    bias = builder.sub(ir.Constant(_ADDRESS, _BIAS), row)
    exponents = builder.sub(write.fill(bias), exponents)
    bits = builder.shl(exponents, ir.Constant(long, [_FRACTION] * lanes))
    factors = builder.bitcast(bits, numbers)

    def make(offset: Any) -> Any:
        x = builder.fmul(write.load(v, offset, numbers), factors)
        if zero.type != NUMBER:
            x = builder.fptrunc(x, ir.VectorType(zero.type, lanes))
        # Zeros are made positive.
        return builder.fadd(x, ir.Constant(x.type, [0.0] * lanes))

    real = builder.icmp_signed("==", parts, ir.Constant(_ADDRESS, 1))
    with builder.if_else(real) as (one, two):
        with one:
            write.store(make(0), out, 0)
        with two:
            places = [i // 2 + i % 2 * lanes for i in range(2 * lanes)]
            mask = ir.Constant(ir.VectorType(_WORD, 2 * lanes), places)
            write.store(builder.shuffle_vector(make(0), make(line), mask), out, 0)


_finish_many, _finish_one = map(_finisher, (LANES, 1))


@inner(_nrt=False)
def are_within(rows, columns, limits):  # type: ignore[no-untyped-def]
    """Tell whether every sum of rows and columns[matrix, :] lies within limits."""
    take_widest()
    high = np.int64(-(2**40))
    low = -high
    for x in columns:
        for c in x:
            low, high = min(low, np.int64(c)), max(high, np.int64(c))
    first, last = low + rows[0], high + rows[0]
    for r in rows:
        first, last = min(first, low + r), max(last, high + r)
    return limits[0] <= first and last <= limits[1]


@inner(_nrt=False)
def finish_row(v, at, columns, row, out):  # type: ignore[no-untyped-def]
    """Write v[part, piece], from `at` on, times 2^-(row + columns): steps 4 and 6.

    To out[columns * parts]. The powers are normal numbers; columns are int64.
    """
    parts, count, zero = v.shape[0], len(columns), out.dtype.type(0)
    numbers, line = v.ctypes.data + 8 * at, v.strides[0]
    width = parts * out.itemsize
    whole = count // LANES * LANES
    for c in range(0, whole, LANES):
        given = numbers + 8 * c, line, parts, columns.ctypes.data + 8 * c, row
        _finish_many(*given, out.ctypes.data + width * c, zero)
    for c in range(whole, count):
        given = numbers + 8 * c, line, parts, columns.ctypes.data + 8 * c, row
        _finish_one(*given, out.ctypes.data + width * c, zero)
