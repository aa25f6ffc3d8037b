"""Decode of samples: their sums are the integers, which become numbers."""

from math import prod

import numpy as np

from ....moduli import ResidueSystem
from ....typing import Array
from ...finish import scale_and_add
from ..layout import as_parts
from ..threads import ranges, run_each


def decode_samples(
    sums: Array,
    system: ResidueSystem,
    alpha: complex,
    beta: complex,
    c: Array | None,
    out: Array,
) -> None:
    """Decode a tile, or a stack, into `out`, times alpha, with beta C added."""
    *front, n = out.shape
    found, plain = out, alpha == 1 and beta == 0 and out.flags.c_contiguous
    if not plain:
        found = np.empty(out.shape, np.complex128 if system.parts == 2 else np.float64)
    rows = prod(front)  # none of an empty chunk
    lines = sums.reshape(len(sums), rows, sums.shape[-1])
    whole = as_parts(found).reshape(rows, n, system.parts)

    def convert(piece: tuple[int, int]) -> None:
        lo, hi = piece
        for part, own in zip(np.moveaxis(whole, -1, 0), lines, strict=True):
            part[lo:hi] = own[lo:hi, :n]

    run_each(convert, ranges(rows, each=n * len(sums) // 2))
    if not plain:
        out[...] = scale_and_add(found, alpha, beta, c, out.dtype)
