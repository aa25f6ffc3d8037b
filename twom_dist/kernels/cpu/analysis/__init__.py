"""Exponents, norms and magnitudes, which decide scales and moduli."""
