"""A product as of GW calculations: matrix elements that decay over many decades.

The polarisability sums products of occupied and empty states, divided by their
energies. Rows and columns that are scaled lose nothing; what varies along the sum
would, were it not looked at: `td.explain` says what was seen.
"""

import numpy as np

import twom_dist as td

PLANE_WAVES, PAIRS = 120, 400

rng = np.random.default_rng(3)
overlaps = rng.standard_normal((PLANE_WAVES, PAIRS)) + 1j * rng.standard_normal(
    (PLANE_WAVES, PAIRS)
)
kinetic = np.linspace(0.1, 30, PLANE_WAVES) ** 2
overlaps *= np.exp(-kinetic / 60)[:, np.newaxis]
# Energies of the pairs, and how strongly they couple: ten decades along the sum.
energies = np.linspace(0.05, 40, PAIRS)
weights = 10.0 ** -np.linspace(0, 10, PAIRS) / energies

left = overlaps * weights
screened = td.gemm(left, overlaps, op_b="C")
print(td.explain(td.gemm, left, overlaps, op_b="C"))

# Errors relative to (|A| |B|)_ij, which is what cannot be had back once it is lost.
right = overlaps.conj().T
high, low = td.twofold.gemm(left, right)
magnitudes = abs(left) @ abs(right)
ours, native = (
    (abs((product - high) - low) / magnitudes).max()
    for product in (screened, left @ right)
)
print(f"largest error of ours {ours:.1e}, of NumPy's product {native:.1e}")
assert ours <= np.sqrt(PAIRS) * 2.0**-53
