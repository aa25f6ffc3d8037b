"""Largest tiles of a product of arrays in memory, by engine."""

from dataclasses import dataclass

from ..config import bytes_setting, integer_setting
from .at_once import AtOnce

Shape = tuple[int, int, int]

# More tiles of an update waste less: a diagonal tile is decoded in full and, where it
# has no half form, multiplied in full, 1/(2T) of the work for T x T tiles. Larger ones
# make better int8 products.
_UPDATE_TILES = 8
_SMALLEST_TILE = 512
_HALVING_TILE = 1024


@dataclass(frozen=True)
class Update:
    """What of an update decides about its tiles.

    Attributes
    ----------
    halves : bool
        Whether a diagonal tile costs half the products.
    two : bool
        Whether a tile holds two products: her2k, syr2k.
    """

    halves: bool
    two: bool


@dataclass(frozen=True)
class TileLimits:
    """What a product of arrays in memory is cut into.

    Attributes
    ----------
    mb, nb, kb : int
        Largest tiles along m, n and k.
    cache_bytes : int
        Encoded tiles that may be kept for reuse.
    at_once : AtOnce, optional
        What computes the product, one tile, by one call.
    """

    mb: int
    nb: int
    kb: int
    cache_bytes: int
    at_once: AtOnce | None = None


def host_limits(shape: Shape, update: Update | None) -> TileLimits:
    """Limit tiles of NumPy arrays by the setting, those of updates to an eighth."""
    largest, cache_bytes = integer_setting("largest-tile"), bytes_setting("cache-bytes")
    tile = largest
    if update is not None:
        smallest = _HALVING_TILE if update.halves else _SMALLEST_TILE
        tile = max(1, min(largest, max(smallest, -(-shape[0] // _UPDATE_TILES))))
    return TileLimits(tile, tile, largest, cache_bytes)
