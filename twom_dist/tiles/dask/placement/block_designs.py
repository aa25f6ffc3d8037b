"""Block designs: sets of points, the blocks, such that any two points share a block.

A worker that holds the rows in one block can compute every tile of A A^H between them,
and a design with a block for each worker places a whole triangle. The lines of finite
planes are the best designs [1]_; a greedy search, after [2]_, serves any other number.

References
----------
.. [1] H. Al Daas et al., "Communication Lower Bounds and Optimal Algorithms for
   Symmetric Matrix Computations", arXiv:2409.11304: triangle blocks.
.. [2] O. Beaumont et al., "Data Distribution Schemes for Dense Linear Algebra
   Factorizations on Any Number of Nodes", IPDPS 2023.
.. [3] J. Singer, "A Theorem in Finite Projective Geometry and Some Applications to
   Number Theory", Trans. Amer. Math. Soc. 43 (1938).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from random import Random

# By the order c of a plane: each number but 0, mod c^2 + c + 1, is one difference [3]_.
DIFFERENCES = {
    2: (1, 2, 4),
    3: (0, 1, 3, 9),
    4: (3, 6, 7, 12, 14),
    5: (1, 5, 11, 24, 25, 27),
    7: (0, 1, 5, 7, 17, 35, 38, 49),
    8: (1, 2, 4, 8, 16, 32, 37, 55, 64),
    9: (0, 1, 3, 9, 27, 49, 56, 61, 77, 81),
    11: (1, 8, 9, 11, 25, 37, 69, 88, 94, 99, 103, 121),
    13: (0, 1, 5, 13, 65, 68, 93, 111, 113, 122, 146, 152, 162, 169),
}


@dataclass(frozen=True)
class BlockDesign:
    """Sets of points such that any two points share one."""

    points: int
    blocks: tuple[int, ...]  # point p is in a block if bit p is

    def spread(self, rows: int) -> "BlockDesign":
        """BlockDesign rows, each in the place of point row mod `points`."""
        places = (range(point, rows, self.points) for point in range(self.points))
        groups = [sum(1 << row for row in own) for own in places]
        blocks = (sum(groups[p] for p in bits(block)) for block in self.blocks)
        return BlockDesign(rows, tuple(blocks))


@lru_cache(maxsize=2**14)
def bits(mask: int) -> tuple[int, ...]:
    """List the positions of the ones of an integer.

    >>> bits(0b10110)
    (1, 2, 4)
    """
    found = []
    while mask:
        found.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return tuple(found)


def greedy_design(points: int, blocks: int, seed: int) -> BlockDesign:
    """Give points to the block with the fewest pairs, each time the one that adds most.

    `seed`: for the choice among points that add equally much.
    """
    random = Random(seed)
    missing = [((1 << points) - 1) ^ (1 << point) for point in range(points)]
    held, pairs = [0] * blocks, [0] * blocks

    while any(missing):
        smallest = pairs.index(min(pairs))
        own = held[smallest]
        others = [p for p in range(points) if not own >> p & 1]
        random.shuffle(others)
        gains = [
            points * (missing[p] & own).bit_count() + missing[p].bit_count()
            for p in others
        ]
        point = others[gains.index(max(gains))]
        added = missing[point] & held[smallest]
        missing[point] ^= added
        for other in bits(added):
            missing[other] ^= 1 << point
        pairs[smallest] += added.bit_count()
        held[smallest] |= 1 << point
    return BlockDesign(points, tuple(held))


def plane_design(blocks: int) -> BlockDesign | None:
    """Return the lines of a finite plane, or None if no known plane has this many.

    The projective plane of order c has c (c + 1) + 1 points and as many lines: the
    shifts of a perfect difference set. The affine plane is what is left without one
    line and its points. Any two points share exactly one line.

    >>> [held.bit_count() for held in plane_design(6).blocks]
    [2, 2, 2, 2, 2, 2]
    >>> plane_design(5) is None
    True
    """
    order = isqrt(blocks)
    count = order * (order + 1) + 1
    if order not in DIFFERENCES or blocks not in (count - 1, count):
        return None
    lines = [{(n + d) % count for d in DIFFERENCES[order]} for n in range(count)]
    if blocks < count:
        last = lines.pop()
        lines = [line - last for line in lines]
    numbers = {point: n for n, point in enumerate(sorted(set().union(*lines)))}
    masks = tuple(sum(1 << numbers[point] for point in line) for line in lines)
    return BlockDesign(len(numbers), masks)
