"""The int8 planes of one operand, in the layout that the int8 GEMM wants."""

from dataclasses import dataclass

import numpy as np

from ...typing import Array, Side
from .tuning import BLOCK


def panels(length: int) -> list[tuple[int, int]]:
    """Cut the rows of a right operand into panels of `BLOCK`."""
    return [(lo, min(lo + BLOCK, length)) for lo in range(0, length, BLOCK)]


@dataclass(frozen=True)
class CpuEncoded:
    """Planes of one operand.

    ``left``: (planes, rows, k) uint8 in [0, p). ``right``: for each plane the panels
    of `BLOCK` columns one after the other, each (k, width) int8, C-contiguous.
    """

    side: Side
    rows: int
    k: int
    moduli: tuple[int, ...]
    data: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, k)."""
        return self.rows, self.k

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.data.nbytes)

    def left_block(self, plane: int, lo: int, hi: int, k_lo: int, k_hi: int) -> Array:
        """Rows lo..hi of a left plane, contiguous."""
        x = self.data.reshape(len(self.moduli), self.rows, self.k)[plane]
        return np.ascontiguousarray(x[lo:hi, k_lo:k_hi])

    def right_block(self, plane: int, lo: int, hi: int, k_lo: int, k_hi: int) -> Array:
        """Panel lo..hi of a right plane, as contiguous (k, width)."""
        flat = self.data.reshape(len(self.moduli), -1)[plane]
        width = hi - lo
        base = lo * self.k
        panel = flat[base + k_lo * width : base + k_hi * width]
        return panel.reshape(k_hi - k_lo, width)

    def whole_plane(self, plane: int) -> Array:
        """Return a right plane as contiguous (k, rows)."""
        blocks = [self.right_block(plane, *p, 0, self.k) for p in panels(self.rows)]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)

    def residues(self) -> Array:
        """(planes, rows, k) int8 symmetric residues."""
        out = np.empty((len(self.moduli), self.rows, self.k), np.int8)
        for plane, p in enumerate(self.moduli):
            if self.side == "left":
                x = self.left_block(plane, 0, self.rows, 0, self.k).astype(np.int16)
                out[plane] = (x + p // 2) % p - p // 2
                continue
            for lo, hi in panels(self.rows):
                out[plane, lo:hi] = self.right_block(plane, lo, hi, 0, self.k).T
        return out
