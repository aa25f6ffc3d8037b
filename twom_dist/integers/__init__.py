"""Exact products of integers, and of Gaussian integers as pairs."""

from .product import matmul
from .routines import gemm, her2k, herk, syr2k, syrk

__all__ = ["gemm", "her2k", "herk", "matmul", "syr2k", "syrk"]
