"""The routines: what each computes, as rows of one table.

A result consists of *cells*, tiles of C. The cells of gemm form a rectangle. The cells
of an update form one triangle of a square; the other triangle is its mirror image.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..typing import Cell, Op, Side, Uplo


class PairBlock(NamedTuple):
    """Pairs of rows of tiles whose products are bounded together."""

    # The number of the block, or the first cell of a sweep; and the layer of workers
    # that has it, unless all of them have a part of k.
    where: tuple[int, ...]
    left: list[tuple[Side, int]]  # rows of tiles of op(A), by the side that holds them
    right: list[tuple[Side, int]]  # the same of op(B)^T
    pairs: list[tuple[int, int]]  # places in both


def _rank(rows: Sequence[int], groups: Sequence[int]) -> Sequence[int]:
    """Return the place of each row, group after group."""
    if not groups:
        return rows
    found = [0] * len(rows)
    for place, i in enumerate(sorted(rows, key=groups.__getitem__)):
        found[i] = place
    return found


@dataclass(frozen=True)
class Routine:
    """A routine of the table."""

    name: str
    formula: str
    matrices: int  # {1, 2}: a alone, or A and B
    triangle: bool  # whether C is a square that one of its triangles determines
    hermitian: bool = False  # whether the other triangle is conjugated

    @property
    def transposed(self) -> Op:
        """The op of an update that is not "N"."""
        return "C" if self.hermitian else "T"

    @property
    def sums(self) -> bool:
        """True if cell (i, j) adds the mirror image of Y_ji to Y_ij: her2k, syr2k."""
        return self.triangle and self.matrices == 2

    def pairs(self, i: int, j: int) -> list[Cell]:
        """List the products of a cell, by their rows of op(A) and columns of op(B).

        >>> ROUTINES["gemm"].pairs(1, 0), ROUTINES["her2k"].pairs(1, 0)
        ([(1, 0)], [(1, 0), (0, 1)])
        """
        return [(i, j), (j, i)] if self.sums and i != j else [(i, j)]

    def cells(self, mt: int, nt: int, uplo: Uplo = "full") -> list[Cell]:
        """List the cells that are computed.

        >>> ROUTINES["gemm"].cells(1, 2), ROUTINES["herk"].cells(2, 2, "upper")
        ([(0, 0), (0, 1)], [(0, 0), (0, 1), (1, 1)])
        """
        if not self.triangle:
            return [(i, j) for i in range(mt) for j in range(nt)]
        lower = [(i, j) for i in range(mt) for j in range(i + 1)]
        return [(j, i) for i, j in lower] if uplo == "upper" else lower

    def pair_blocks(
        self, mt: int, nt: int, size: Cell, groups: Sequence[Sequence[int]] = ((), ())
    ) -> list[PairBlock]:
        """Group all pairs of rows and columns in blocks, of few `groups` if possible.

        >>> for block in ROUTINES["gemm"].pair_blocks(1, 3, (1, 2)):
        ...     print(*block)
        (0,) [('left', 0)] [('right', 0), ('right', 1)] [(0, 0), (0, 1)]
        (1,) [('left', 0)] [('right', 2)] [(0, 0)]
        """
        rows, columns = size
        ranks: list[Sequence[int]] = [range(mt), range(nt)]
        if not self.triangle:
            ranks = [_rank(*x) for x in zip(ranks, groups, strict=True)]
        blocks: dict[Cell, list[Cell]] = {}
        for cell in self.cells(mt, nt):
            for i, j in self.pairs(*cell):
                at = ranks[0][i] // rows, ranks[1][j] // columns
                blocks.setdefault(at, []).append((i, j))
        return [self.pair_block((n,), own) for n, own in enumerate(blocks.values())]

    def pair_block(self, where: tuple[int, ...], pairs: Collection[Cell]) -> PairBlock:
        """Bound pairs together."""
        other: Side = "left" if self.matrices == 1 else "right"
        x, y = (sorted(set(own)) for own in zip(*pairs, strict=True))
        places = [(x.index(i), y.index(j)) for i, j in pairs]
        left: list[tuple[Side, int]] = [("left", i) for i in x]
        return PairBlock(where, left, [(other, j) for j in y], places)

    def count_pair_blocks(self, mt: int, nt: int, size: Cell) -> int:
        """Count these groups.

        >>> ROUTINES["gemm"].count_pair_blocks(1, 3, (1, 2))
        2
        >>> ROUTINES["herk"].count_pair_blocks(2, 2, (1, 1))
        3
        """
        rows, columns = size
        if not self.triangle or self.sums:
            return -(-mt // rows) * -(-nt // columns)
        last = (min(i + rows, mt) - 1 for i in range(0, mt, rows))
        return sum(i // columns + 1 for i in last)

    def count_cells(self, mt: int, nt: int) -> int:
        """Count the cells that are computed."""
        return mt * (mt + 1) // 2 if self.triangle else mt * nt


ROUTINES = {
    routine.name: routine
    for routine in (
        Routine("gemm", "alpha op(A) op(B) + beta C", 2, triangle=False),
        Routine("herk", "alpha A A^H + beta C", 1, triangle=True, hermitian=True),
        Routine("syrk", "alpha A A^T + beta C", 1, triangle=True),
        Routine(
            "her2k",
            "alpha A B^H + conj(alpha) B A^H + beta C",
            matrices=2,
            triangle=True,
            hermitian=True,
        ),
        Routine("syr2k", "alpha A B^T + alpha B A^T + beta C", 2, triangle=True),
    )
}
