"""Products of encoded tiles, by the fastest kernel of this machine."""

from functools import cache

import numpy as np

from ....moduli import ResidueSystem, residue_system
from ....typing import Array, Uplo
from ...winograd import choose_levels
from ..buffers import empty
from ..planes import DEPTH, GROUP, SIDES, CpuEncoded, as_groups
from ..threads import available_cores, num_threads
from ..tuning import CROSSOVERS, MOST_CORES
from ..units import count_lanes, find_features, has_amx, refuse_amx
from .amx_steps import CONFIGURATION
from .macrokernel import multiply_packed
from .quarters import multiply_in_quarters

# Words along k whose products of two uint8 int32 holds: 2^15 columns.
_PANEL = (1 << 15) // DEPTH
_NAMES = {16: "avx512-vnni", 8: "avx-vnni", 0: "vectors"}


def name_kernel() -> str:
    """Name what multiplies int8 here."""
    if select_tiles() is not None:
        return "amx-int8"
    for feature in ("i8mm", "dotprod"):
        if feature in find_features():
            return f"neon-{feature}"
    return _NAMES[count_lanes()]


def explain_no_amx() -> str:
    """Say why AMX is not used on a CPU that has it, or nothing."""
    if not has_amx() or select_tiles() is not None:
        return ""
    return refuse_amx() or "its products are not exact"


@cache
def select_tiles() -> Array | None:
    """Return the configuration of AMX's tiles, where they may be used and are exact."""
    usable = refuse_amx() is None and are_tiles_exact()
    return CONFIGURATION if usable else None


def are_tiles_exact() -> bool:
    """Multiply extreme values by AMX, and compare with the exact sums."""
    system, (m, n, k) = residue_system("real", 3), (37, 67, 1031)
    order = tuple(range(len(system.planes)))
    for value in (127, -128):
        a, b = np.full((m, k), -128, np.int8), np.full((n, k), value, np.int8)
        a[1::2], b[1::3] = 127, -127
        left, right = (
            CpuEncoded(len(x), k, as_groups(np.array([x] * len(order))), order)
            for x in (a, b)
        )
        found = np.empty((len(order), 1, m, -(-n // GROUP) * GROUP), np.int8)
        multiply_packed(left, right, system, found, None, order, CONFIGURATION, 0)
        exact = (a.astype(float) @ b.T.astype(float)).astype(np.int64)
        for plane, p in zip(found[:, 0, :, :n], system.moduli, strict=True):
            if not np.array_equal(plane, (exact + p // 2) % p - p // 2):
                return False
    return True


def may_take_quarters(shape: tuple[int, int, int]) -> bool:
    """Tell whether Winograd's algorithm may multiply products of a shape.

    Not on many cores, each of which computes products of its own, with quarters that
    have to fit the caches, and not with AMX, where an eighth of the products takes less
    time than their sums (a prediction).
    """
    # No size exceeds the smallest side.
    if min(shape) < CROSSOVERS[0] or 1 / sum(1 / x for x in shape) < CROSSOVERS[0]:
        return False
    return available_cores() <= MOST_CORES and select_tiles() is None


def multiply_planes(
    left: CpuEncoded,
    right: CpuEncoded,
    system: ResidueSystem,
    residues: Array,
    before: Array | None = None,
    hermitian: bool = False,
    triangle: Uplo = "full",
) -> None:
    """Multiply all products, or those of X X^H without a mirror, and add residues.

    `residues`: (products, matrices, m, n padded to whole groups); `before`: of the same
    shape, and may be `residues`.
    """
    own = system.own_products(hermitian)
    if system.wraps:
        given = left, right, system, residues, before, own, SIDES[triangle]
        return _multiply_samples(*given)
    # What follows from a product needs all of it.
    side, levels, tiles = 0 if hermitian else SIDES[triangle], 0, select_tiles()
    if side == 0 and not left.stack:
        shape = left.rows, right.rows, left.k
        pays = len(own) >= 2 * num_threads() and may_take_quarters(shape)
        crossovers = CROSSOVERS if pays else ()
        levels = choose_levels(shape, (GROUP, GROUP, DEPTH), crossovers)
    if levels > 0:
        old = None if before is None else before[:, 0]
        where = residues[:, 0], old, own, tiles, levels
        multiply_in_quarters(left, right, system, *where)
    else:
        multiply_packed(left, right, system, residues, before, own, tiles, side)


def _multiply_samples(
    left: CpuEncoded,
    right: CpuEncoded,
    system: ResidueSystem,
    sums: Array,
    before: Array | None,
    own: tuple[int, ...],
    side: int,
) -> None:
    """Multiply samples, to int32, or to int64, to which panels along k are added."""
    given, words = (left, right, system), left.planes.shape[2]
    if sums.itemsize == 4:
        return multiply_packed(*given, sums, before, own, None, side, (0, words))
    if before is None:
        sums[...] = 0
    elif before.ctypes.data != sums.ctypes.data:
        sums[...] = before
    panel = empty(sums.shape, np.int32)
    step = _PANEL // (len(own) // len(sums))
    for start in range(0, words, step):
        span = start, min(words, start + step)
        multiply_packed(*given, panel, None, own, None, side, span)
        sums += panel
