"""Sums of parts of k, and the tree along which they are added."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Partial(NamedTuple):
    """Sums of one part of k, or of several.

    Attributes
    ----------
    layer, first : int
        The layer where they lie, and the first tile along k.
    parts : int
    sums : value
    """

    layer: int
    first: int
    parts: int
    sums: Any


def add_up(
    parts: Sequence[Partial], add: Callable[[tuple[int, ...], Any, Any], Any]
) -> Partial:
    """Add sums pair by pair, where the first of both lies: every tree is right.

    `add` is given (layer, first, parts) of a sum, which nothing else has, and what is
    added.
    """
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    x, y = (add_up(own, add) for own in (parts[:half], parts[half:]))
    place = x.layer, x.first, x.parts + y.parts
    return Partial(*place, add(place, x.sums, y.sums))
