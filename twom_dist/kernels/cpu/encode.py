"""Encode: complex tile -> int8 residue planes, one pass over the data.

A row piece is quantised once into split float64 integers, then every plane is formed
from them while they lie in L1. All sums are exact integers below 2^53.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numba import njit

from ...moduli import ResidueSystem, symmetric_residue
from ...typing import Array

# x' = sum_t split[t] 2^(30 t), |split[t]| <= 2^29 but for the last, which is smaller
# than 2^30. With S splits and weights below 2^7:
# |y| <= 2^30 (1 + (S-1) 2^7) (1 + 2^7) < 2^49 for S <= 7.
SPLIT_BITS = 30
_PIECE = 256
# Adding and subtracting 1.5 * 2^52 rounds |x| < 2^51 to the nearest integer.
_ROUND = 1.5 * 2.0**52


@dataclass(frozen=True)
class EncodeTables:
    """The residue system as the arrays that the kernel reads."""

    moduli: Array
    split_weights: Array
    first_plane: Array
    plane_weights: Array


@cache
def encode_tables(system: ResidueSystem) -> EncodeTables:
    """Tabulate 2^(30 t) mod p and the plane weights, all symmetric."""
    # |x'| <= R = sqrt(capacity) < 2^bits.
    bits = (system.capacity.bit_length() + 1) // 2 + 1
    splits = max(1, -(-bits // SPLIT_BITS))
    weights = [
        [float(symmetric_residue(1 << SPLIT_BITS * t, p)) for t in range(splits)]
        for p in system.moduli
    ]
    owners = [system.moduli.index(plane.p) for plane in system.planes]
    first = [owners.index(i) for i in range(len(system.moduli))] + [len(owners)]
    planes = [
        [float(symmetric_residue(w, x.p)) for w in (x.re_weight, x.im_weight)]
        for x in system.planes
    ]
    return EncodeTables(
        np.array(system.moduli, dtype=np.float64),
        np.array(weights),
        np.array(first, dtype=np.int64),
        np.array(planes),
    )


@njit(nogil=True, cache=True)
def _split_piece(values, factor1, factor2, count, split):  # type: ignore[no-untyped-def]
    """split[t] of rint(value factor1 factor2); zero where the factor is zero."""
    last = split.shape[0] - 1
    for c in range(count):
        f = factor1[c]
        v = 0.0 if f == 0.0 else np.rint(values[c] * f * factor2[c])
        split[last, c] = v
    for t in range(last):
        # Split off the low 30 bits; the remainder replaces the value above.
        for c in range(count):
            v = split[last, c]
            high = np.rint(v * 2.0**-SPLIT_BITS)
            split[t, c] = v - high * 2.0**SPLIT_BITS
            split[last, c] = high


@njit(nogil=True, cache=True)
def encode_rows(  # type: ignore[no-untyped-def]
    x,
    swapped,
    row_factors,
    column_factors,
    im_sign,
    moduli,
    split_weights,
    first_plane,
    plane_weights,
    unsigned,
    lo,
    hi,
    first_column,
    out,
    offset,
    plane_stride,
):
    """Write rows lo..hi, of `width` columns from first_column on, of every plane.

    x is (rows, columns, parts), or (columns, rows, parts) when swapped. Plane l of
    row r goes to ``out[l * plane_stride + offset + r * width:]``.
    """
    parts = x.shape[2]
    width = column_factors.shape[1]
    splits = split_weights.shape[1]
    values = np.empty((2, _PIECE))
    factor1, factor2 = np.empty(_PIECE), np.empty(_PIECE)
    split = np.zeros((2, splits, _PIECE))
    y = np.zeros((2, _PIECE))
    for r in range(lo, hi):
        for start in range(0, width, _PIECE):
            count = min(_PIECE, width - start)
            for c in range(count):
                factor1[c] = row_factors[0, r] * column_factors[0, start + c]
                factor2[c] = row_factors[1, r] * column_factors[1, start + c]
            for part in range(parts):
                base = first_column + start
                if swapped:
                    for c in range(count):
                        values[part, c] = x[base + c, r, part]
                else:
                    for c in range(count):
                        values[part, c] = x[r, base + c, part]
                _split_piece(values[part], factor1, factor2, count, split[part])
            for owner in range(moduli.size):
                p = moduli[owner]
                inverse = 1.0 / p
                for part in range(parts):
                    for c in range(count):
                        y[part, c] = split[part, 0, c]
                    for t in range(1, splits):
                        w = split_weights[owner, t]
                        for c in range(count):
                            y[part, c] += w * split[part, t, c]
                for plane in range(first_plane[owner], first_plane[owner + 1]):
                    re = plane_weights[plane, 0]
                    im = plane_weights[plane, 1] * im_sign
                    o = plane * plane_stride + offset + r * width + start
                    lift = p if unsigned else 0.0
                    for c in range(count):
                        v = re * y[0, c] + im * y[1, c]
                        quotient = (v * inverse + _ROUND) - _ROUND
                        v -= quotient * p
                        v += lift if v < 0.0 else 0.0
                        # The low byte: [-128, 127], or [0, p) if unsigned.
                        out[o + c] = np.uint8(np.int32(v))
