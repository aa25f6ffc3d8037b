"""Blocks that are not what their dask array says."""

import numpy as np
from scipy import sparse

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


def lying(x, lie, dtype=complex):
    return x.map_blocks(lie, dtype=dtype, meta=np.empty((0, 0), dtype))
