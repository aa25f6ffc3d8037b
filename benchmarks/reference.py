"""Errors of products, against the same product to twice the digits."""

from typing import Any

import twom_dist as td


class Reference:
    """The product of two matrices to twice the digits.

    For tall matrices it has only some rows, evenly spaced.
    """

    def __init__(self, A: Any, B: Any, most_rows: int = 4096) -> None:
        self.rows = slice(None, None, -(-len(A) // most_rows))
        wide = "complex128" if A.dtype.kind == "c" else "float64"
        a, b = A[self.rows].astype(wide), B.astype(wide, copy=False)
        self.high, self.low = td.twofold.gemm(a, b, accuracy="componentwise")
        self.magnitudes = abs(a) @ abs(b)

    def differences(self, C: Any) -> Any:
        """Return ``|C - A B|``."""
        return abs((C[self.rows] - self.high) - self.low)

    def errors(self, C: Any) -> dict[str, float]:
        """Return the largest ``|C - A B| / (|A| |B|)``, and the ratio of the norms."""
        difference = self.differences(C)
        squares = [(x * x).sum() for x in (difference, self.magnitudes)]
        # An entry without nonzero products is 0, and so is its error.
        sizes = self.magnitudes + (self.magnitudes == 0)
        return {
            "componentwise": float((difference / sizes).max()),
            "norm": float(squares[0] / squares[1]) ** 0.5,
        }
