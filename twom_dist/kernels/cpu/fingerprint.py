"""Fingerprint of a block, to tell whether it was refilled since it was encoded."""

import numpy as np

from .compiled import kernel


@kernel
def fingerprint_words(words):  # type: ignore[no-untyped-def]
    """Sum t ^ (t >> 29), t = (w + 1) odd_i, modulo 2^64 over 32-bit words w.

    The odd weights tell permutations apart and the shift brings high bits, signs
    among them, down to where sums of changes do not cancel.
    """
    total = np.uint64(0)
    for i in range(words.size):
        weight = np.uint64(0x9E3779B97F4A7C15) * np.uint64(2 * i + 1)
        mixed = (np.uint64(words[i]) + np.uint64(1)) * weight
        total += mixed ^ (mixed >> np.uint64(29))
    return total
