"""Rows and columns before they are multiplied: how large, how spread, which moduli."""
