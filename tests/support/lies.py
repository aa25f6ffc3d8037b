"""Blocks that are not what their dask array says, and calls that meet them."""

import numpy as np
from scipy import sparse

import twom_dist as td

M, K = 6, 8
# What a block becomes that its array says nothing of, and the code of the refusal.
LIES = {
    "fewer rows": ("block-shape", lambda b: b[:1].copy()),
    "more rows": ("block-shape", lambda b: np.vstack([b, b])),
    "fewer columns": ("block-shape", lambda b: b[:, :-1]),
    "more columns": ("block-shape", lambda b: np.hstack([b, b])),
    "no rows": ("block-shape", lambda b: b[:0]),
    "one dimension": ("block-shape", lambda b: b.ravel()),
    "three dimensions": ("block-shape", lambda b: b[np.newaxis]),
    "real": ("block-kind", lambda b: b.real.copy()),
    "single": ("block-kind", lambda b: b.astype("c8")),
    "integers": ("block-kind", lambda b: b.real.astype(int)),
    "objects": ("block-kind", lambda b: b.astype(object)),
    "big-endian": ("block-kind", lambda b: b.astype(">c16")),
    "masked": ("block-kind", lambda b: np.ma.masked_array(b, b == b)),
    "matrix": ("block-kind", lambda b: sparse.csr_matrix(b)),
    "list": ("block-kind", lambda b: b.tolist()),
    "none": ("block-kind", lambda b: None),
}
# Shapes of A, B and C, and what is computed from them.
CALLS = {
    "gemm": (
        ((M, K), (K, M), (M, M)),
        lambda a, b, c, **options: td.gemm(a, b, c, beta=1, **options),
    ),
    "gemm, transposed": (
        ((K, M), (M, K), (M, M)),
        lambda a, b, c, **options: td.gemm(
            a, b, c, beta=1, op_a="C", op_b="T", **options
        ),
    ),
    "herk": (
        ((M, K), None, (M, M)),
        lambda a, _, c, **options: td.herk(a, c, beta=1, **options),
    ),
    "syr2k": (
        ((K, M), (K, M), (M, M)),
        lambda a, b, c, **options: td.syr2k(a, b, c, beta=1, op="T", **options),
    ),
}


def lying(x, lie, dtype=complex):
    return x.map_blocks(lie, dtype=dtype, meta=np.empty((0, 0), dtype))
