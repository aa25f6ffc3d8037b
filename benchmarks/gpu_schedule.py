"""The two parts of the GPU benchmarks, and the time that they should take.

The rates are those of an H200 in docs/kernels.md, lowered for the memory of an H100.
"""

from collections.abc import Sequence

# Sizes, with ragged ones beside the nearest round ones.
SIZES = (512, 1000, 1024, 2048, 3000, 4095, 4096, 4100, 5000, 8192, 16384)
WINOGRAD_SIZES = (8192, 12288, 16384)
REPEATS = 5
PARTS = ("ours", "peers")
ENERGY_SIZES = (4096, 8192)
ENERGY_SECONDS = 2.0
# Time limit of a peer, so that four of them and the joules end within ten minutes.
PEER_SECONDS = 130.0

# TF/s of "2m" by least size, and of cuBLAS's zgemm; no large peer was slower than that.
OURS = {0: 5, 1024: 33, 2048: 84, 4096: 110, 8192: 145}
NATIVE = 48
# 3.35 TB/s of an H100 over 4.8 of an H200, as if memory were always the limit.
H100 = 0.7
# Seconds for imports. Some forty modules take 0.3 s each if CuPy has not cached them.
START_SECONDS = 3
# Seconds of a stack's product: 0.2 ms of launches, or 2.4 if the default looks at data.
STACKED_SECONDS = 1.3e-3


def estimate_seconds(part: str, sizes: Sequence[int], repeats: int) -> float:
    """Estimate the seconds of a part of `PARTS` on an H100, GEMMul8 included."""
    rounds = repeats + 1
    if part == "peers":
        energy = 3 * len(ENERGY_SIZES) * (ENERGY_SECONDS + 1)
        one = sum(
            rounds * (_own(n) + _seconds(n, NATIVE)) + _error_seconds(n) for n in sizes
        )
        return START_SECONDS + energy + 4 * min(START_SECONDS + one, PEER_SECONDS)
    # The time of squares is that of seven of ours in turns, and twelve for stages.
    squares = sum(
        rounds * (7 * _own(n) + _seconds(n, NATIVE)) + 12 * _own(n) + _error_seconds(n)
        for n in sizes
    )
    winograd = sum((3 * rounds + 12) * _own(n) for n in WINOGRAD_SIZES)
    moduli = rounds * 12 * _own(4096) + _error_seconds(4096)
    # Shapes and dtypes take at most the operations of four and three squares of 8192.
    others = 7 * (rounds * (2 * _own(8192) + _seconds(8192, NATIVE)))
    stacks = 4 * 256 * 2 * rounds * STACKED_SECONDS
    return START_SECONDS + squares + winograd + moduli + others + stacks


def _seconds(n: int, tflops: float) -> float:
    return 8 * n**3 / (tflops * 1e12 * H100)


def _own(n: int) -> float:
    """Estimate the seconds of our product from the rate of the next smaller size."""
    return max(1e-3, _seconds(n, OURS[max(size for size in OURS if size <= n)]))


def _error_seconds(n: int) -> float:
    """Estimate the reference's seconds: at most 4096 rows, four times the planes."""
    return min(1, 4096 / n) * (4 * _own(n) + _seconds(n, NATIVE))
