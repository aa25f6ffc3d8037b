"""A residue system as kernels read it: constants in their source, and tables.

The tables are NumPy arrays to be copied once. Each is built once and never written to.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from ...errors import KernelError
from ...moduli import Mirror, ResidueSystem, combined_weights
from ...typing import Array
from .cublas import align

KINDS = ("2m", "3m", "4m", "real")  # kinds of moduli, as the kernels number them

_WORD_BITS = 32
_LARGEST_RAW = 1 << 23  # `residue_bits` of arithmetic.cuh is exact below this


@dataclass(frozen=True)
class Constants:
    """The residue system with which the text of encode.cu or decode.cu begins."""

    numbers: tuple[tuple[str, int], ...]  # tuple of (str, int): names and values
    table: Array  # (count,) uint32 or float64

    def text(self) -> str:
        """Write them as C++."""
        names = ", ".join(f"{name} = {value}" for name, value in self.numbers)
        double = self.table.dtype == np.float64
        values = ", ".join(float(x).hex() if double else f"{x}u" for x in self.table)
        kind = "double" if double else "unsigned int"
        size = len(self.table)
        return (
            f"enum {{ {names} }};\n"
            f"const __constant__ {kind} TABLE[{size}] = {{{values}}};\n"
        )


def _count_kinds(system: ResidueSystem) -> tuple[tuple[str, int], ...]:
    """Count the 2M, 3M, 4M and real moduli, which come in this order."""
    kinds = system.kinds
    if kinds != tuple(kind for kind in KINDS for _ in range(kinds.count(kind))):
        raise KernelError(
            f"the CUDA kernels cannot take moduli of these kinds: {', '.join(kinds)}",
            "Put 2M moduli first, then 3M, then 4M",
            "order-of-moduli",
        )
    names = "TWO_M_COUNT", "THREE_M_COUNT", "FOUR_M_COUNT", "REAL_COUNT"
    return tuple((name, kinds.count(x)) for name, x in zip(names, KINDS, strict=True))


def reduction_constants(p: int) -> tuple[int, int]:
    """Return what reduces modulo p: the bits of float32 ``2^126 / p``, and -p."""
    inverse = np.float32(2.0**126) / np.float32(p)
    return int(inverse.view(np.uint32)), -p % (1 << _WORD_BITS)


def _freeze(x: Array) -> Array:
    x.flags.writeable = False
    return x


def _pack_weights(w: int, p: int, count: int) -> list[int]:
    """``w 2^(8i) mod p`` for each of the bytes of `count` words, four to a word."""
    weights = [w * (1 << 8 * i) % p for i in range(4 * count)]
    packed: list[int] = np.array(weights, np.uint8).view(np.uint32).tolist()
    return packed


@cache
def product_indices(products: tuple[int, ...]) -> Array:
    """Tabulate products, or planes, as the kernels read them."""
    return np.array(products, np.int32)


@cache
def encode_words(system: ResidueSystem) -> int:
    """Count the 32-bit words that hold every quantised value.

    Parts are below ``2^(32 words - 1)`` in magnitude.
    """
    return -(-(system.part_bits + 1) // _WORD_BITS)


def _encode_entry(p: int, re: int, im: int, words: int) -> list[int]:
    """Header, weights of Re and of Im: see encode.cu."""
    bias = 1 << (_WORD_BITS * words - 1)
    starts = [-w * bias % p for w in (re, im)]
    weights = [_pack_weights(w, p, words) for w in (re, im)]
    # The largest sum over 4 words bytes of 255; `lift` keeps Re - Im positive.
    totals = [np.array(w, np.uint32).view(np.uint8).sum(dtype=int) for w in weights]
    largest = [s + 255 * int(t) for s, t in zip(starts, totals, strict=True)]
    lift = align(largest[1], p)
    assert largest[0] + max(largest[1], lift) < _LARGEST_RAW
    inverse, minus_p = reduction_constants(p)
    return [inverse, minus_p, lift, *starts, *weights[0], *weights[1]]


@cache
def encode_table(system: ResidueSystem) -> Array:
    """Tabulate, for each modulus, what encode.cu reads: (moduli, 5 + 2 words) uint32.

    ``inverse, -p, lift, start of Re, start of Im``, the byte weights of Re (1), and
    those of Im (s for 2M and its like, 1 for 3M and 4M, 0 for real).
    """
    words, entries = encode_words(system), []
    for p in system.moduli:
        own = [t.im_weight for t in system.planes if t.p == p]
        # The first plane of 2M has s; the last one of others has 1, or 0 if real.
        entries.append(_encode_entry(p, 1, own[0] or own[-1], words))
    return _freeze(np.array(entries, np.uint32))


@cache
def encode_constants(system: ResidueSystem) -> Constants:
    """Return what encode.cu begins with."""
    return Constants(_count_kinds(system), encode_table(system).reshape(-1))


@cache
def requantise_table(system: ResidueSystem) -> Array:
    """Tabulate {byte weights, start, inverse, -p}: (products, 4) uint32."""
    entries = []
    for p in (product.p for product in system.products):
        # Sums are biased by 2^31; old residues are -128 at least.
        start = -(1 << 31) % p + align(128, p)
        entries.append([*_pack_weights(1, p, 1), start, *reduction_constants(p)])
    return _freeze(np.array(entries, np.uint32))


def mirror_entry(target: int, mirror: Mirror, p: int) -> list[int]:
    """Write down how a product follows from others, as combine.cu has it."""
    lift = align(3 * 128 * 128, p)
    other = -1 if mirror.other is None else mirror.other
    weights = mirror.straight, mirror.transposed, mirror.other_weight
    signed = np.array([target, mirror.source, other, *weights], np.int32)
    return [*signed.view(np.uint32).tolist(), lift, *reduction_constants(p)]


@cache
def mirror_table(system: ResidueSystem) -> Array:
    """Tabulate the products of ``X X^H`` that follow from others: (count, 9) uint32."""
    products = system.products
    mirrors = [(q, p.mirror, p.p) for q, p in enumerate(products) if p.mirror]
    read = {q for _, mirror, _ in mirrors for q in (mirror.source, mirror.other)}
    # All are made side by side.
    assert all(products[q].mirror is None for q in read if q is not None)
    return _freeze(np.array([mirror_entry(*m) for m in mirrors], np.uint32))


@cache
def addition_table(system: ResidueSystem) -> Array:
    """Tabulate {lift, inverse, -p} of add_residues in combine.cu: (products, 3)."""
    moduli = [product.p for product in system.products]
    entries = [[align(256, p), *reduction_constants(p)] for p in moduli]
    return _freeze(np.array(entries, np.uint32))


@cache
def decode_table(system: ResidueSystem) -> Array:
    """Tabulate the digits of M, the quotient's factors and the weights' digits.

    The T digits of M; ``2^((T-1)b) / M`` and ``2^((T-2)b) / M``, each rounded once; the
    first times ``2^(106 - TOP_SHIFT)``, an integer; then for each modulus and digit,
    least significant first, the digit of the weight of each part.
    """
    b, count = system.digit_bits, system.num_digits
    m = system.modulus_product
    values = [float(d) for d in system.digits(m)]
    values += [(1 << t * b) / m if t >= 0 else 0.0 for t in (count - 1, count - 2)]
    values.append(values[-2] * 2.0 ** (106 - _top_shift(system)))
    for own in combined_weights(system):
        weights = [system.digits(weight) for weight in own]
        values += [float(d) for t in range(count) for d in (w[t] for w in weights)]
    return _freeze(np.array(values))


def _top_shift(system: ResidueSystem) -> int:
    """Find the shift by which M has 45 bits: 1 to 45."""
    leading = (system.num_digits - 1) * system.digit_bits
    return 45 - system.modulus_product.bit_length() + leading


@cache
def decode_constants(system: ResidueSystem) -> Constants:
    """Return what decode.cu begins with."""
    numbers = ("DIGIT_BITS", system.digit_bits), ("TOP_SHIFT", _top_shift(system))
    return Constants((*_count_kinds(system), *numbers), decode_table(system))


def decode_elements(system: ResidueSystem) -> int:
    """Count the neighbours a thread decodes: what keeps it to 128 registers.

    Compiled for sm_80, sm_90 and sm_100, no system needs more, or spills.
    """
    sums = system.parts * system.num_digits
    return 4 if sums <= 6 else 2 if sums <= 10 else 1
