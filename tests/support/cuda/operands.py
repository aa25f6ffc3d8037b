"""Operands that the kernels are tried on."""

import numpy as np

from tests.support.strategies import LAYOUTS as ALL_LAYOUTS

# (rows, k): one, ragged against 4, 8, 16 and 32, tall, wide, long, without columns.
OPERAND_SHAPES = (
    *((1, 1), (3, 0), (2, 17), (7, 16), (33, 5), (8, 128), (31, 33), (32, 64)),
    *((70, 3), (1, 1000), (5, 131), (40, 36), (257, 2)),
)


# The byte order is the launcher's affair.
LAYOUTS = {
    **{name: lay for name, lay in ALL_LAYOUTS.items() if name != "big-endian"},
    "reversed transpose": lambda x: np.ascontiguousarray(x.T[::-1])[::-1].T,
}


def extreme_matrix(dtype):
    """Rows of subnormals, of huge and mixed entries, of ties; zero, NaN, Inf rows."""
    dtype = np.dtype(dtype)
    real = dtype.type(0).real.dtype
    info = np.finfo(real)
    tiny, low, high = info.smallest_subnormal, info.smallest_normal, info.max
    below = np.nextafter(real.type(1), real.type(0))
    rows = [
        [tiny, -tiny, 0, 3 * tiny, 0, -tiny],
        [low, low - tiny, -tiny, 0, 5 * tiny, low],
        [high, -high, tiny, 1, low, 0],
        [1, tiny, -high, below, -below, high],
        [0.5, -0.5, 1.5, 2.5, -3.5, 1e6 + 0.5],
        [below, -below, below, 1, -1, below],
        [0, 0, -0.0, 0, 0, 0],
        [1, 2, np.nan, 3, 4, 5],
        [np.inf, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, -np.inf],
        [np.nan, -np.nan, np.inf, 0, 1, high],
        [2.0**-40, 1 + 2.0**-20, -1 - 2.0**-20, 2.0**30, 0, 1],
    ]
    x = np.array(rows, real)
    if dtype.kind != "c":
        return x
    out = np.empty(x.shape, dtype)
    out.real, out.imag = x, x[:, ::-1]
    return out
