"""Products of encoded tiles: int8 products block by block, reduced modulo p."""

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array
from .encoded import CpuEncoded, panels
from .int8_gemm import get_gemm
from .requantise import SHIFT, multiplier, requantise, requantise_add
from .threads import run_each, scratch
from .transpose import combine, transpose
from .tuning import LARGEST_K


def multiply_blocks(
    left: CpuEncoded,
    right: CpuEncoded,
    system: ResidueSystem,
    residues: Array,
    add: bool,
    own: list[int],
) -> None:
    """Multiply the products listed in `own`, each block of a plane on its own."""
    m, n, k = left.rows, right.rows, left.k
    gemm = get_gemm()

    def block(piece: tuple[int, int, int, int, int]) -> None:
        q, lo, hi, n_lo, n_hi = piece
        product = system.products[q]
        sums = scratch((hi - lo, n_hi - n_lo), np.dtype(np.int32))
        write = requantise_add if add else requantise
        for k_lo in range(0, k, LARGEST_K):
            k_hi = min(k, k_lo + LARGEST_K)
            a = left.left_block(product.left, lo, hi, k_lo, k_hi)
            b = right.right_block(product.right, n_lo, n_hi, k_lo, k_hi)
            gemm(a, b, sums)
            m_p = multiplier(product.p)
            write(sums, product.p, m_p, residues[q], lo, n_lo)
            write = requantise_add

    blocks = [(*r, *c) for c in panels(n) for r in panels(m)]
    run_each(block, [(q, *b) for b in blocks for q in own])


def multiply_batched(
    left: CpuEncoded,
    right: CpuEncoded,
    system: ResidueSystem,
    residues: Array,
    add: bool,
    own: list[int],
) -> None:
    """Multiply all planes of small matrices by one call."""
    m, n, k = left.rows, right.rows, left.k
    products = [system.products[q] for q in own]
    a = left.data.reshape(-1, m, k)[[product.left for product in products]]
    b = [right.whole_plane(product.right) for product in products]
    sums = np.empty((len(b), m, n), np.int32)
    get_gemm()(a, np.stack(b), sums)
    write = requantise_add if add else requantise
    for q, product, s in zip(own, products, sums, strict=True):
        write(s, product.p, multiplier(product.p), residues[q], 0, 0)


def fill_mirrors(system: ResidueSystem, residues: Array) -> None:
    """Derive the products that have a mirror."""

    def fill(q: int) -> None:
        product, mirror = system.products[q], system.products[q].mirror
        if mirror is None:
            return
        source, target = residues[mirror.source], residues[q]
        transpose(source.view(np.uint8), 0, 0, target.view(np.uint8))
        if (mirror.straight, mirror.transposed, mirror.other) != (0, 1, None):
            other = source if mirror.other is None else residues[mirror.other]
            combine(
                target,
                mirror.straight,
                source,
                mirror.transposed,
                mirror.other_weight,
                other,
                product.p,
                multiplier(product.p),
                SHIFT,
            )

    run_each(fill, range(len(system.products)))
