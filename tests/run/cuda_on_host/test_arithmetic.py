"""Reductions and words that kernels share, over all they can be given."""

import ctypes
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

from tests.support.cases import cases
from tests.support.contract.products import reduce
from tests.support.cuda.host import host_text
from tests.support.cuda.host_tiles import tiles
from twom_dist.kernels.cuda.sources import Module, module_for
from twom_dist.kernels.cuda.tables import (
    decode_constants,
    decode_table,
    encode_table,
    encode_words,
    mirror_entry,
    reduction_constants,
    requantise_table,
)
from twom_dist.moduli import Mirror, available_moduli, make_system, residue_system

METHODS = ("2m", "3m", "4m", "hybrid", "real")
MODULI = sorted({p for method in METHODS for p, _ in available_moduli(method)})

# The first raw value below `count` whose low byte is not its symmetric residue, or
# `count`. 256 has two symmetric residues of 128, with one byte.
_SWEEP = """
extern "C" uint32 sweep(int32 p, uint32 inverse, uint32 minus_p, uint32 count) {
  int32 expected = 0;
  for (uint32 raw = 0; raw < count; ++raw) {
    uint32 bits = residue_bits(raw, __uint_as_float(inverse), minus_p);
    if ((uint8)bits != (uint8)expected) return raw;
    expected = expected + 1 > (p - 1) / 2 ? expected + 1 - p : expected + 1;
  }
  return count;
}
"""


def test_every_raw_value_of_every_modulus_is_reduced(host_kernels):
    sweep = host_kernels.compile(host_text(Module("requantise"), _SWEEP)).sweep
    sweep.argtypes = [ctypes.c_uint] * 4
    sweep.restype = ctypes.c_uint
    for p in MODULI:
        count = 1 << 23 if p in (256, 255, 241, 29, 19) else 1 << 20
        inverse, minus_p = reduction_constants(p)
        assert sweep(p, inverse, minus_p, count) == count, p
        # The sweep would see a wrong inverse; of 256 any quotient leaves the low byte.
        assert p == 256 or sweep(p, inverse + (1 << 6), minus_p, count) < count, p


def byte_sum(words):
    return 255 * np.ascontiguousarray(words).view(np.uint8).sum(axis=1, dtype=np.int64)


@pytest.mark.parametrize("method", METHODS)
def test_raw_sums_stay_where_the_reduction_is_exact(method):
    """Below 2^20 with the two words of native double precision, always below 2^23."""
    counts = []
    for count in range(1, len(available_moduli(method)) + 1):
        system = residue_system(method, count)
        weights, words = encode_table(system), encode_words(system)
        counts.append(words)
        assert isqrt(system.capacity) < 2 ** (32 * words - 1)
        assert not weights.flags.writeable
        limit = 1 << 20 if words <= 2 else 1 << 23
        first = weights.astype(np.int64)
        re = byte_sum(weights[:, 5 : 5 + words]) + first[:, 3]
        im = byte_sum(weights[:, 5 + words :]) + first[:, 4]
        lift = first[:, 2]
        assert (lift >= im).all()
        assert (re + np.maximum(im, lift) < limit).all()
    assert counts == sorted(counts)
    assert counts[0] == 1
    table = requantise_table(residue_system(method, len(counts)))
    assert (byte_sum(table[:, :1]) + table[:, 1] + 127 < 1 << 18).all()
    assert (table[:, 1] >= 128).all()
    for p in MODULI:  # of combine
        lift = mirror_entry(1, Mirror(0, 0, 1), p)[6]
        assert lift % p == 0
        assert 3 * 128 * 128 <= lift < (1 << 17) - 3 * 128 * 128


@cases("p", MODULI)
def test_sums_at_every_boundary_are_requantised(host_kernels, p):
    """Of integers, and of float32 that holds them exactly; with the residues before."""
    # Both ends of int32, around every power of two, and around ties modulo p.
    ends = [-(2**31), 2**31 - 1, 0, 2**30, -(2**30), 2**16 * 127 * 127]
    ends += [s * 2**b for b in range(31) for s in (1, -1)]
    ties = [t * p + p // 2 for t in (0, 1, 2**20, (2**31 - p) // p)]
    near = np.array([*ends, *ties, *(-x for x in ties)])[:, None] + np.arange(-304, 304)
    table = requantise_table(make_system("real", ((p, "real"),)))
    for single in (False, True):
        sums = np.clip(near, -(2**31), 2**31 - 1).astype(np.int32)
        if single:
            sums = np.clip(sums, 1 - 2**24, 2**24 - 1)
        (m, n), own = sums.shape, sums.astype(np.float32) if single else sums
        for old in (None, -(p // 2), (p - 1) // 2):
            out = np.full((m, n), old or 0, np.int8)
            args = own.view(np.int32), n, m * n, None if old is None else out, out
            args += n, m * n, m, table, np.zeros(1, np.int32), single, 1, 0
            given = (-(-n // 128), 2, 1), (32, 8, 1), args
            host_kernels.launch(module_for("requantise"), "requantise", *given)
            total = sums.astype(np.int64) + (old or 0)
            assert (out == (total + p // 2) % p - p // 2).all()


@pytest.mark.parametrize("method", METHODS)
def test_sums_of_digits_are_exact_and_quotients_near_enough(method):
    """The bounds that digits.cuh counts on, for every system."""
    bounds = dict.fromkeys(("2m", "4m"), (2, 2)) | {"3m": (2, 3)}
    for count in range(1, len(available_moduli(method)) + 1):
        system = residue_system(method, count)
        m, b, digits = system.modulus_product, system.digit_bits, system.num_digits
        shift, place = dict(decode_constants(system).numbers)["TOP_SHIFT"], digits - 1
        assert 37 <= b <= 45
        assert 64 * system.num_products <= 1 << (51 - b)
        assert m >= Fraction(2) ** (place * b - 1)
        unit = Fraction(2) ** (place * b - shift)
        assert 1 << 44 <= m / unit < 1 << 45
        factor = Fraction(decode_table(system)[digits + 2])
        assert factor.denominator == 1
        assert factor <= 1 << 62
        largest = (1 << (51 - b)) + (1 << (52 - b))  # quotient and LIFT
        wrong = largest * abs(factor / (unit * 2**106 / m) - 1) + Fraction(1, 1 << 42)
        if digits > 1:
            wrong += unit / m
            below = sum(Fraction(1 << 52) * (1 << t * b) for t in range(digits - 2))
            wrong += below / m
        assert wrong < Fraction(1, 1 << 20)
        assert m / Fraction(2) - system.capacity >= m * Fraction(1, 1 << 20)
        # Sums of combined residues, with 2^52 the bound that quotients count on.
        table = decode_table(system)
        shape = (system.num_moduli, system.num_digits, system.parts)
        weights = np.abs(table[system.num_digits + 3 :].reshape(shape))
        residues = [bounds.get(kind, (1,)) for kind in system.kinds]
        most = np.array(residues) * (np.array(system.moduli) // 2)[:, np.newaxis]
        sums = (weights * most[:, np.newaxis, :]).sum(axis=0)
        assert sums.max() < 2.0**52
        # The bias of the combined residues.
        assert most.max() <= 512


@cases("triangle", [0, 1, 2])
@cases("rows", [*range(1, 20), 33])
def test_every_square_is_made_once(rows, triangle):
    for columns in {rows, *([1, 3, 20] if triangle == 0 else [])}:
        count = rows * columns if triangle == 0 else rows * (rows + 1) // 2
        given = rows, columns, triangle
        found = [tiles().locate_square(i, *given) for i in range(count)]
        wanted = [
            (i, j)
            for i in range(rows)
            for j in range(columns)
            if triangle == 0 or (j <= i if triangle == 1 else i <= j)
        ]
        assert sorted(found) == wanted


@cases("fused", [False, True])
@cases("p", MODULI)
def test_every_sum_of_tiles_is_reduced(p, fused):
    """All that differ by more than p, with the largest and least residues."""
    weight = min(pow(2, 16, p), pow(2, 16, p) - p, key=abs)
    table = requantise_table(make_system("real", ((p, "real"),))).view(np.int32)
    # High halves so far apart that low ones fill what is between.
    step = (1 << 16) // abs(weight) if weight else 1 << 14
    for high in {*range(-(1 << 14), 1 << 14, step), (1 << 14) - 1, 0, 1 << 14}:
        sums = (high << 16) + np.arange(1 << 16, dtype=np.int64).reshape(256, 256)
        sums = np.minimum(sums, 1 << 30)
        for old in (None, -128, 127):
            given = sums.astype(np.int32), table.ravel(), old, fused
            expected = reduce(sums + (old or 0), p).astype(np.int8)
            assert np.array_equal(tiles().reduce(*given), expected)
