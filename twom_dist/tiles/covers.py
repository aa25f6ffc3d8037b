"""Covers of pairs: sets of points such that any two points share a set.

A worker that holds the rows in one set can compute every tile of A A^H between them, so
that a cover with a set for each worker places a whole triangle. The lines of finite
planes are the best covers [1]_; a greedy search, after [2]_, serves every number of
sets.

References
----------
.. [1] H. Al Daas et al., "Communication Lower Bounds and Optimal Algorithms for
   Symmetric Matrix Computations", arXiv:2409.11304: triangle blocks.
.. [2] O. Beaumont et al., "Data Distribution Schemes for Dense Linear Algebra
   Factorizations on Any Number of Nodes", IPDPS 2023.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import isqrt
from random import Random

Element = tuple[int, ...]


@dataclass(frozen=True)
class Cover:
    """Sets of points, any two of which share a set.

    Attributes
    ----------
    points : int
    sets : tuple of int
        Point p is in a set if bit p is.
    """

    points: int
    sets: tuple[int, ...]

    def spread(self, rows: int) -> "Cover":
        """Cover rows, each in the place of point row mod `points`."""
        groups = [
            sum(1 << row for row in range(point, rows, self.points))
            for point in range(self.points)
        ]
        return Cover(rows, tuple(sum(groups[p] for p in bits(s)) for s in self.sets))


def bits(mask: int) -> Iterator[int]:
    """Yield the positions of the ones of an integer.

    Examples
    --------
    >>> list(bits(0b10110))
    [1, 2, 4]
    """
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def greedy_cover(points: int, sets: int, seed: int) -> Cover:
    """Give points to the set with the fewest pairs, each time the one that adds most.

    Parameters
    ----------
    points : int
        2 or more.
    sets : int
    seed : int
        Of the choice among points that add as much.
    """
    random = Random(seed)
    missing = [((1 << points) - 1) ^ (1 << point) for point in range(points)]
    held, pairs = [0] * sets, [0] * sets

    def gain(point: int) -> tuple[int, int]:
        return (missing[point] & held[smallest]).bit_count(), missing[point].bit_count()

    while any(missing):
        smallest = min(range(sets), key=pairs.__getitem__)
        others = [p for p in range(points) if not held[smallest] >> p & 1]
        random.shuffle(others)
        point = max(others, key=gain)
        added = missing[point] & held[smallest]
        missing[point] ^= added
        for other in bits(added):
            missing[other] ^= 1 << point
        pairs[smallest] += added.bit_count()
        held[smallest] |= 1 << point
    return Cover(points, tuple(held))


def plane_cover(sets: int) -> Cover | None:
    """Return the lines of a finite plane, or None where none has so many.

    The affine plane of order c, a prime power, has c^2 points and c (c + 1) lines of c
    points; the projective plane adds a point to each line, where it meets its
    parallels, and the line of these points. Any two points share exactly one line.

    Examples
    --------
    >>> plane_cover(6)
    Cover(points=4, sets=(9, 6, 3, 12, 5, 10))
    >>> plane_cover(5) is None
    True
    """
    order = isqrt(sets)
    if _prime_power(order) is None or sets - order * (order + 1) not in (0, 1):
        return None
    field = Field(order)
    elements = field.elements
    # Numbered along parabolas, on which no three points share a line: where the first
    # points stand for one row more than the others, no line has many of them.
    numbers = {
        (x, field.add(field.multiply(x, x), above)): number
        for number, (above, x) in enumerate(product(elements, elements))
    }
    lines = [
        [(x, field.add(field.multiply(slope, x), y)) for x in elements]
        for slope in elements
        for y in elements
    ]
    lines += [[(x, y) for y in elements] for x in elements]
    masks = [sum(1 << numbers[point] for point in line) for line in lines]
    affine = order**2
    if sets == len(masks):
        return Cover(affine, tuple(masks))
    # Parallels follow each other, `order` of them, and share one more point.
    closed = [mask | 1 << affine + n // order for n, mask in enumerate(masks)]
    return Cover(sets, (*closed, (1 << sets) - (1 << affine)))


def _prime_power(order: int) -> tuple[int, int] | None:
    """Find p and e with order = p^e."""
    p = next((p for p in range(2, order + 1) if order % p == 0), 0)
    e = next((e for e in range(1, order) if p**e >= order), 1)
    return (p, e) if p and p**e == order else None


class Field:
    """GF(q): polynomials over the integers mod p, modulo a primitive one.

    Parameters
    ----------
    order : int
        q = p^e.
    """

    def __init__(self, order: int) -> None:
        found = _prime_power(order)
        assert found is not None
        self.p, degree = found
        self.elements: list[Element] = list(product(range(self.p), repeat=degree))
        # x^e = tail is primitive where x has every element but 0 among its powers.
        for tail in self.elements:
            power: Element = (1, *(0,) * (degree - 1))
            self.powers: list[Element] = []
            while power not in self.powers and any(power):
                self.powers.append(power)
                *low, top = (0, *power)
                power = self.add(low, [top * t for t in tail])
            if len(self.powers) == order - 1:
                break
        self.logarithms = {power: n for n, power in enumerate(self.powers)}

    def add(self, a: Sequence[int], b: Sequence[int]) -> Element:
        """Sum of two elements."""
        return tuple((x + y) % self.p for x, y in zip(a, b, strict=True))

    def multiply(self, a: Element, b: Element) -> Element:
        """Product of two elements."""
        if not (any(a) and any(b)):
            return self.elements[0]
        n = self.logarithms[a] + self.logarithms[b]
        return self.powers[n % len(self.powers)]
