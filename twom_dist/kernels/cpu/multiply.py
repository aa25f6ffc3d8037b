"""Products of encoded tiles, the way that this machine does best."""

from collections.abc import Sequence

from ...moduli import ResidueSystem
from ...typing import Array
from ..winograd import choose_levels
from .blocks import multiply_blocks
from .encoded import DEPTH, GROUP, CpuEncoded
from .int8_gemm import select_kernel
from .microkernel import is_supported
from .packed import multiply_packed
from .quarters import multiply_in_quarters
from .threads import available_cores, num_threads
from .tuning import CROSSOVERS, MOST_CORES


def name_kernel() -> str:
    """Name what multiplies int8 here."""
    return "avx512-vnni" if is_supported() else select_kernel()


def multiply_planes(
    left: CpuEncoded,
    right: CpuEncoded,
    system: ResidueSystem,
    residues: Array,
    before: Array | None,
    own: Sequence[int],
    side: int,
) -> None:
    """Multiply the products `own`, and add residues of their shape.

    `before` may be `residues`; `side`: -1 for the lower triangle at least, 1 for the
    upper one, 0 for all.
    """
    args = (left, right, system, residues, before, own)
    shape, grain = (left.rows, right.rows, left.k), (GROUP, GROUP, DEPTH)
    # A thread computes whole products, with quarters of its own in the caches.
    few = available_cores() <= MOST_CORES and len(own) >= 2 * num_threads()
    crossovers = CROSSOVERS if few else ()
    alone = len(left.stack) == 0 and side == 0
    levels = choose_levels(shape, grain, crossovers) if alone else 0
    if not is_supported():
        multiply_blocks(*args)
    elif levels > 0:
        old = None if before is None else before[:, 0]
        multiply_in_quarters(left, right, system, residues[:, 0], old, own, levels)
    else:
        multiply_packed(*args, side)
