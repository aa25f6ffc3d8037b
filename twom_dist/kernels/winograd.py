"""Winograd's form of Strassen's algorithm, modulo p: 7 half-size products, not 8.

In quarters of A (m x k), B (k x n) and C, with the letters of [1]_:

    S1 = A21 + A22,  S2 = S1 - A11,  S3 = A11 - A21,  S4 = A12 - S2,
    T1 = B12 - B11,  T2 = B22 - T1,  T3 = B22 - B12,  T4 = T2 - B21;

    P1 = A11 B11,  P2 = A12 B21,  P3 = S4 B22,  P4 = A22 T4,
    P5 = S1 T1,    P6 = S2 T2,    P7 = S3 T3;

    C11 = P1 + P2,            C12 = P1 + P6 + P5 + P3,
    C21 = P1 + P6 + P7 - P4,  C22 = P1 + P6 + P7 + P5.

Floating-point products lose accuracy by this; residues modulo p are exact, so that an
engine may take it or not, and the bits are the same. The planes of S and T are residues
again: their products are no larger than others, and the form applies to them, too.

References
----------
.. [1] D. H. Bailey, K. Lee, H. D. Simon, "Using Strassen's Algorithm to Accelerate the
   Solution of Linear Systems", J. Supercomputing 4 (1991), section 2.
"""

from collections.abc import Sequence

import numpy as np

from ..config import level_setting
from .limits import Shape, mean_side

# In quarters 11, 12, 21, 22: the left and the right factor of each product; and the
# quarters of C as sums of products.
LEFT = np.array(
    [
        *([1, 0, 0, 0], [0, 1, 0, 0], [1, 1, -1, -1], [0, 0, 0, 1]),
        *([0, 0, 1, 1], [-1, 0, 1, 1], [1, 0, -1, 0]),
    ]
)
RIGHT = np.array(
    [
        *([1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, -1, -1, 1]),
        *([-1, 1, 0, 0], [1, -1, 0, 1], [0, -1, 0, 1]),
    ]
)
RESULT = np.array(
    [
        *([1, 1, 0, 0, 0, 0, 0], [1, 0, 1, 0, 1, 1, 0]),
        *([1, 0, 0, -1, 0, 1, 1], [1, 0, 0, 0, 1, 1, 1]),
    ]
)


def choose_levels(
    shape: Shape, grain: Sequence[int], crossovers: Sequence[float]
) -> int:
    """Choose how often a product is halved: by the setting, else by its size.

    A level spares an eighth of the m n k multiplications, and passes over m k, n k and
    m n residues: it pays from some `mean_side` on.

    `grain`: what the engine cannot halve; no side is cut below it. `crossovers`: from
    where on 1, 2, ... levels pay.
    """
    wanted = level_setting("winograd-levels")
    if wanted is None:
        wanted = sum(mean_side(shape) >= crossover for crossover in crossovers)
    if wanted == 0:
        return 0
    pieces = min(-(-side // least) for side, least in zip(shape, grain, strict=True))
    return min(wanted, max(1, pieces).bit_length() - 1)


def quarters_bytes(m: int, n: int, k: int) -> int:
    """Bound the bytes of the quarters of one product of planes, of all its levels.

    Four quarters of sums of each side and seven of residues; a level more takes a
    quarter of that.
    """
    return 4 * ((m + n) * k + 2 * m * n) // 3
