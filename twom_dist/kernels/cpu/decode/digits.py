"""Digits of the reconstruction, by pieces of a row: steps 1 to 3 of `Engine.decode`.

Both parts of a piece are adjacent, and code that treats them alike takes them as one
line. Where operations may be contracted, every result is exact, fused or not.

Kernels without `_nrt` count the references to their arrays, by atomic operations: about
60 for each piece of a row, which took as long as half of the arithmetic.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from ..jit import inner, instructions
from ..products.writer import Writer
from ..units import take_widest
from .sums import LANES, NUMBER, NUMBERS, STEP

_ADDRESS = ir.IntType(64)


@instructions(given=(*(types.intp,) * 4, *(types.float64,) * 3), result=types.int64)
def _balance(builder, d, line, digits, modulus, unit, first, second):
    """Balance the digits of 16 numbers modulo M: steps 1 and 2.

    d and `modulus`: addresses of the least of two or more digits, those of d `line`
    bytes apart; `first`, `second`: the factors of the quotient. Tells whether a digit
    is ``-2^(b-1)``.
    """
    write, here = Writer(builder, LANES), range(0, STEP, LANES)
    half_one, zero = (ir.Constant(NUMBERS, [x] * LANES) for x in (0.5, 0.0))

    def round_by(name: str, x: Any) -> Any:
        kind = f"llvm.{name}.v{LANES}f64"
        return builder.call(write.declare(kind, NUMBERS, NUMBERS), [x])

    last = builder.sub(digits, ir.Constant(_ADDRESS, 1))
    top = builder.add(d, builder.mul(line, last))
    below = builder.sub(top, line)
    factors = write.fill(first), write.fill(second)
    units, half = write.fill(unit), write.fill(builder.fmul(unit, NUMBER(0.5)))
    inverse = write.fill(builder.fdiv(NUMBER(1.0), unit))
    quotients = []
    for c in here:
        terms = (
            builder.fmul(write.load(x, 8 * c, NUMBERS), factor)
            for x, factor in zip((top, below), factors, strict=True)
        )
        quotients.append(round_by("rint", builder.fadd(*terms)))

    def least(x: Any, y: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", x, y), x, y)

    def reduce(own: Any, multiple: Any, c: int, q: Any, carry: Any) -> Any:
        x = write.subtract_exact(write.load(own, 8 * c, NUMBERS), q, multiple)
        return builder.fadd(x, carry)

    def carry_on(step: Any, own: Any, digit: Any, *held: Any) -> Any:
        multiple, found = write.fill(write.load(digit, 0, NUMBER)), []
        for k, (c, q) in enumerate(zip(here, quotients, strict=True)):
            carry, lowest = held[2 * k : 2 * k + 2]
            x = reduce(own, multiple, c, q, carry)
            # Half a unit more, in units.
            carry = round_by("floor", write.add_exact(half_one, x, inverse))
            x = write.subtract_exact(x, carry, units)
            write.store(x, own, 8 * c)
            found += [carry, least(x, lowest)]
        following = builder.add(own, line), builder.add(digit, ir.Constant(_ADDRESS, 8))
        return [*following, *found]

    given = [d, modulus, *(zero, zero) * len(here)]
    own, digit, *held = write.repeat(last, given, carry_on)
    multiple, lowest = write.fill(write.load(digit, 0, NUMBER)), zero
    for k, (c, q) in enumerate(zip(here, quotients, strict=True)):
        carry, own_lowest = held[2 * k : 2 * k + 2]
        write.store(reduce(own, multiple, c, q, carry), own, 8 * c)
        lowest = least(own_lowest, lowest)
    halves = builder.fcmp_ordered("==", lowest, builder.fneg(half))
    return builder.zext(builder.bitcast(halves, ir.IntType(LANES)), _ADDRESS)


@inner(_nrt=False)
def balance_digits(d, modulus, factors, unit, count):
    """Follow steps 1 and 2 of the contract on d[digit, part, piece].

    Tells whether a balanced digit is ``-2^(b-1)``.
    """
    halves = np.int64(0)
    for part in range(d.shape[1]):
        own = d.ctypes.data + part * d.strides[1]
        for c in range(0, count, STEP):
            digits = own + 8 * c, d.strides[0], len(d), modulus.ctypes.data
            halves |= _balance(*digits, unit, factors[0], factors[1])
    return halves


@inner(_nrt=False)
def add_digits(d, unit, v):
    """Sum the digits from the least up, to v[component, piece]: step 3.

    The second of two components is the sum of what each sum leaves, exactly.
    """
    take_widest()
    for c in range(d.shape[1]):
        v[0, c] = d[0, c]
    if len(v) == 2:
        for c in range(d.shape[1]):
            v[1, c] = 0.0
    scale = 1.0
    for t in range(1, len(d)):
        scale *= unit
        if len(v) == 2:
            for c in range(d.shape[1]):
                x, high = d[t, c] * scale, v[0, c]
                total = x + high
                v[1, c] += high - (total - x)
                v[0, c] = total
        else:
            for c in range(d.shape[1]):
                v[0, c] = d[t, c] * scale + v[0, c]


@inner(_nrt=False)
def mirror_digits(d, unit, v):
    """Give negative integers the digits of their magnitudes, negated; rare."""
    half, last = unit / 2, len(d) - 1
    for c in range(d.shape[1]):
        if v[0, c] < 0.0:
            carry = 0.0
            for t in range(last + 1):
                digit = carry - d[t, c]
                carry = 0.0
                if digit >= half and t < last:
                    digit -= unit
                    carry = 1.0
                d[t, c] = -digit
