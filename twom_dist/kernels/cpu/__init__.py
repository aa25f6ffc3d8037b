"""The default engine: kernels that Numba compiles for the machine.

A product passes four packages: `analysis` finds exponents, norms and magnitudes,
`encode` makes planes of residues, `products` multiplies them, and `decode` makes the
tile. The modules next to these packages serve all four.
"""
