"""Largest tiles of a product of arrays in memory; products of one tile by one call."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ..config import bytes_setting, integer_setting
from ..moduli import ResidueSystem, ScalingRule
from ..typing import Array, Uplo
from .statistics import RowStatistics

Shape = tuple[int, int, int]

# Tiles of an update in a row at most, and their smallest side where a diagonal one is
# multiplied in full: more of them waste less, 1/(2T) of the work for T x T tiles.
_UPDATE_TILES = 8
_SMALLEST_TILE = 512
# Encoded tiles that are kept where neither the setting nor a plan says how many.
CACHE_BYTES = 2**31


def mean_side(shape: Shape) -> float:
    """Return the harmonic mean of m, n and k, to which sizes of products compare.

    Products of the same mean have as many multiplications for each entry of A, B and C.

    >>> mean_side((3000, 3000, 3000)), mean_side((100, 5000, 0))
    (3000.0, 0.0)
    """
    m, n, k = shape
    return 3 * m * n * k / (m * n + n * k + k * m) if m and n and k else 0.0


@dataclass(frozen=True)
class Update:
    """Properties of an update that decide about its tiles."""

    halves: bool  # whether a diagonal tile costs half the products
    two: bool  # whether a tile holds two products: her2k, syr2k


class FusedProduct(NamedTuple):
    """Terms of a product by one call, whatever the arrays."""

    conjugate: tuple[bool, bool]  # (bool, bool): whether X, and Y, are conjugated
    system: ResidueSystem
    rule: ScalingRule
    dtype: Any  # of the result
    alpha: complex
    beta: complex
    # Where y is x, the plane of X that is each plane of Y: see `Encoded.reorder`
    twin: tuple[int, ...] | None
    # If one triangle determines a square product: as `symmetrise_diagonal_tile` has it.
    uplo: Uplo | None
    hermitian: bool  # whether its image is conjugated
    turned: tuple[bool, bool] = (False, False)  # whether X^T, and Y^T, are given
    # Arrays of calls with the same `alike`, not None, have the same shapes and strides.
    alike: Hashable = None


class FusedGemm(Protocol):
    """Product of one tile by one call, if an engine has it.

    It gives what all stages of `Engine` give one after the other, bit for bit.
    """

    def __call__(
        self,
        product: FusedProduct,
        x: Array,
        y: Array,
        *,
        c: Array | None = None,
        out: Array | None = None,
        shifts: Sequence[Array] | None = None,
        known: Sequence[RowStatistics] | None = None,
        places: Sequence[int] | None = None,
    ) -> Array:
        """Compute ``alpha X Y^T + beta c`` from (m, k) and (n, k) that hold all of k.

        Or from their transposes, where `product` says so.

        Or of stacks with one axis in front, the same for all; no dimension is 0. `out`:
        where it is written, C-contiguous; overlaps none of the others. `shifts`:
        exponents of the columns of x and of y, see `Engine`; none for stacks. `known`:
        of x, and of y, if the caller has them; otherwise recomputed. `places`: the
        matrices of stacks to multiply, the others are left, if the engine takes them.
        """


@dataclass(frozen=True)
class TileLimits:
    """The tiles into which a product of arrays in memory is cut."""

    mb: int  # largest tiles along m, n and k
    nb: int
    kb: int
    cache_bytes: int  # encoded tiles that may be kept for reuse
    gemm_fused: FusedGemm | None = None  # computes the product, one tile, by one call
    steady: bool = False  # whether they are the same whatever memory is free
    together: int = 0  # matrices of a stack that `gemm_fused` takes, whatever is free


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
