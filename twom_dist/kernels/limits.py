"""Largest tiles of a product of arrays in memory, by engine."""

from dataclasses import dataclass

from ..config import bytes_setting, integer_setting
from .fused_gemm import FusedGemm

Shape = tuple[int, int, int]

# Tiles of an update in a row at most, and their smallest side where a diagonal one is
# multiplied in full: more of them waste less, 1/(2T) of the work for T x T tiles.
_UPDATE_TILES = 8
_SMALLEST_TILE = 512
# Encoded tiles that are kept where neither the setting nor a plan says how many.
CACHE_BYTES = 2**31


@dataclass(frozen=True)
class Update:
    """Properties of an update that decide about its tiles.

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
    """The tiles into which a product of arrays in memory is cut.

    Attributes
    ----------
    mb, nb, kb : int
        Largest tiles along m, n and k.
    cache_bytes : int
        Encoded tiles that may be kept for reuse.
    gemm_fused : FusedGemm, optional
        What computes the product, one tile, by one call.
    steady : bool
        Whether they are the same whatever memory is free.
    """

    mb: int
    nb: int
    kb: int
    cache_bytes: int
    gemm_fused: FusedGemm | None = None
    steady: bool = False


def host_limits(
    shape: Shape, update: Update | None, smallest: int = _SMALLEST_TILE
) -> TileLimits:
    """Limit tiles of NumPy arrays by the setting, those of updates to an eighth.

    `smallest`: the side from which tiles of an update are cut.
    """
    largest = integer_setting("largest-tile")
    cache_bytes = bytes_setting("cache-bytes", CACHE_BYTES)
    tile = largest
    if update is not None:
        tile = max(smallest, -(-shape[0] // _UPDATE_TILES))
        tile = max(1, min(largest, tile))
    return TileLimits(tile, tile, largest, cache_bytes)
