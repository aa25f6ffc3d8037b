"""Tilings of one small product: of m, n and k, as chunks of dask arrays."""

M, N, K = 23, 19, 31
# Chunks of m, n and k.
TILINGS = {
    "one tile": ((23,), (19,), (31,)),
    "even": ((8, 8, 7), (8, 8, 3), (8, 8, 8, 7)),
    "rows and columns": ((4, 4, 4, 4, 4, 3), (10, 9), (31,)),
    "k alone": ((23,), (19,), (5, 5, 5, 5, 5, 5, 1)),
    "ragged": ((1, 15, 7), (2, 17), (30, 1)),
    "single rows": ((1, 1, 1, 1, 19), (19,), (16, 15)),
    "empty pieces": ((0, 20, 3), (19, 0), (0, 16, 0, 15)),
}
