"""Digits of the weights times residues, summed: step 1 of `Engine.decode`, first half.

Written in LLVM IR through Numba. The contributions of each modulus to both parts are
kept in adjacent lines. Then the sums of 16 entries stay in registers during a loop over
the moduli; every sum is exact, fused or not.

Products often lie a multiple of 4 KB apart, so that their lines displace each other
from the caches. Sums of the residues themselves, 16 entries of all products at a time,
took 19 to 54 ns an entry there, and 7 to 10 with a line more between the products
(Emerald Rapids, 16 2M moduli, 1 thread). So each line is read at once, a product after
the other.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir

from ..jit import inner, instructions
from ..products.writer import Writer
from ..units import find_features

# Entries whose sums are made together: one or two vectors.
STEP = 16
LANES = 8
COMBINED = 32  # entries whose residues are combined together: those of 32 bytes
# Products ahead of those that are combined whose residues are fetched: a CPU sees no
# pattern. All of a piece would displace each other.
_AHEAD = 6
_LINE = 64  # bytes of a line of the cache
_ADDRESS, _WORD = ir.IntType(64), ir.IntType(32)
_ONE = ir.Constant(_ADDRESS, 1)
NUMBER = ir.DoubleType()
NUMBERS = ir.VectorType(NUMBER, LANES)

# How the residues of a modulus are combined: from how many products, to what parts.
FORMS = ("real", "2m", "3m", "4m")
_COMBINE: tuple[tuple[int, Callable[..., Any]], ...] = (
    (1, lambda b, x: [x]),
    (2, lambda b, x, y: [b.add(y, x), b.sub(y, x)]),
    (3, lambda b, x, y, z: [b.sub(x, y), b.sub(z, b.add(x, y))]),
    (4, lambda b, x, y, z, t: [b.sub(x, y), b.add(z, t)]),
)


def _combine(lanes, builder, form, x, distance, count, ahead, out, line):
    """Write what a modulus of a form gives each part of some entries, as int32.

    Its products are `distance` bytes apart, from x on, and the parts `line`. There are
    `lanes` or more entries: the last of them are combined once more, not others beyond
    the end. What is read later, `ahead` bytes on, is fetched.
    """
    write, kind = Writer(builder, lanes), ir.VectorType(_WORD, lanes)
    width = ir.Constant(_ADDRESS, lanes)
    last = builder.sub(count, width)
    steps = builder.add(builder.sdiv(builder.sub(count, _ONE), width), _ONE)
    for number, (products, combine) in enumerate(_COMBINE):

        def step(i: Any, products: int = products, combine: Any = combine) -> list[Any]:
            place = builder.mul(i, width)
            place = builder.select(builder.icmp_signed("<", place, last), place, last)
            given, own = [], builder.add(x, place)
            for _ in range(products):
                given.append(builder.sext(write.load(own, 0, write.residues), kind))
                write.fetch(builder.add(own, ahead), writing=False)
                own = builder.add(own, distance)
            target = builder.add(out, builder.mul(place, ir.Constant(_ADDRESS, 4)))
            for found in combine(builder, *given):
                write.store(found, target, 0)
                target = builder.add(target, line)
            return []

        own_form = builder.icmp_signed("==", form, ir.Constant(_ADDRESS, number))
        with builder.if_then(own_form):
            write.repeat(steps, [], step)


@instructions
def _fetch_result(builder, address):
    Writer(builder, LANES).fetch(address)


_PRODUCTS = tuple(products for products, _ in _COMBINE)
_combine_many, _combine_one = (
    instructions(partial(_combine, lanes)) for lanes in (COMBINED, 1)
)


def _sum_digits(digits, builder, x, distance, moduli, weights, width, out, line):
    """Write the sums of int32 numbers of 16 entries times so many digits of weights.

    All are addresses and distances in bytes but `moduli`: from one modulus to the next
    `distance` of x and `width` of the weights, whose digits follow one another, and
    from one digit of the sums to the next `line`.
    """
    write = Writer(builder, LANES)
    # Vectors of a loop: as many sums as there are registers for. A sum of AVX-512 waits
    # four cycles for the one before, and two start in each.
    together = 2 if "avx512f" in find_features() else 1
    numbers = ir.VectorType(_WORD, LANES)
    start = [ir.Constant(NUMBERS, [0.0] * LANES)] * (digits * together)
    for first in range(0, STEP // LANES, together):
        here = range(first, first + together)

        def add(
            step: Any, own: Any, weight: Any, *sums: Any, here: range = here
        ) -> Any:
            loaded = [write.load(own, 4 * LANES * v, numbers) for v in here]
            values = [builder.sitofp(t, NUMBERS) for t in loaded]
            before, found = iter(sums), []
            for t in range(digits):
                factor = write.fill(write.load(weight, 8 * t, NUMBER))
                found += [write.add_exact(next(before), v, factor) for v in values]
            following = builder.add(own, distance), builder.add(weight, width)
            return [*following, *found]

        _, _, *sums = write.repeat(moduli, [x, weights, *start], add)
        found = iter(sums)
        for t in range(digits):
            at = builder.add(out, builder.mul(line, ir.Constant(_ADDRESS, t)))
            for v in here:
                write.store(next(found), at, 8 * LANES * v)


_sum_two, _sum_three, _sum_four = (
    instructions(partial(_sum_digits, digits)) for digits in (2, 3, 4)
)


@inner(_nrt=False)
def combine_residues(r, first, count, forms, small):
    """Combine residues: to small[modulus, part, piece].

    r[product, piece], from `first` on, of `count` entries.
    """
    distance, line, q = r.strides[0], small.strides[1], 0
    base = r.ctypes.data + first
    for modulus in range(len(forms)):
        form = forms[modulus]
        ahead = _AHEAD * distance
        if q + _AHEAD >= len(r):
            # After the last product come those of the next piece.
            ahead += count - len(r) * distance
        entries = form, base + q * distance, distance, count, ahead
        out = small.ctypes.data + modulus * small.strides[0]
        if count < COMBINED:
            _combine_one(*entries, out, line)
        else:
            _combine_many(*entries, out, line)
        q += _PRODUCTS[form]


@inner(_nrt=False)
def sum_residues(small, count, weights, d, result, size):
    """Sum the digits of the weights times residues: to d[digit, part, piece].

    small[modulus, part, piece], `count` entries of it; weights[part, modulus, digit].
    Meanwhile lines are fetched for what will be written, numbers of `size` bytes at
    `result`.
    """
    line, moduli = small.strides[1], weights.shape[1]
    digits, parts = d.shape[0], d.shape[1]
    for part in range(parts):
        factors = weights.ctypes.data + part * weights.strides[0]
        x, sums = small.ctypes.data + part * line, d.ctypes.data + part * d.strides[1]
        for c in range(0, count, STEP):
            for k in range(0, STEP * size, _LINE):
                _fetch_result(result + (c * parts + part * STEP) * size + k)
            t = 0
            while t < digits:
                numbers = x + 4 * c, line * parts, moduli
                own = factors + 8 * t, weights.strides[1]
                target = sums + t * d.strides[0] + 8 * c, d.strides[0]
                left = digits - t
                if left == 4 or left > 5:
                    _sum_four(*numbers, *own, *target)
                    t += 4
                elif left == 2:
                    _sum_two(*numbers, *own, *target)
                    t += 2
                else:
                    _sum_three(*numbers, *own, *target)
                    t += 3
