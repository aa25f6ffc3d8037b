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

    def componentwise(self, C: Any) -> float:
        """Return the largest ``|C - A B| / (|A| |B|)``."""
        # An entry without nonzero products is 0, and so is its error.
        sizes = self.magnitudes + (self.magnitudes == 0)
        return float((self.differences(C) / sizes).max())

    def errors(self, C: Any) -> dict[str, float]:
        """Return the largest error, and the norm of all over that of ``|A| |B|``."""
        parts = self.differences(C), self.magnitudes
        above, below = ((x * x).sum() for x in parts)
        return {
            "componentwise": self.componentwise(C),
            "norm": float(above / below) ** 0.5,
        }
