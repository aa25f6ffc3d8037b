"""Exponents, norms and magnitudes: what decides about scales and moduli."""
