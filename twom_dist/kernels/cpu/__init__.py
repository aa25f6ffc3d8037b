"""The embedded default: kernels that Numba compiles for the machine.

A product goes through four rooms: `analysis` finds exponents, norms and magnitudes,
`encode` makes planes of residues, `products` multiplies them, and `decode` makes the
tile. What lies next to them serves all four.
"""
