"""Products of encoded tiles, the way that this machine does best."""

from collections.abc import Sequence

from ...moduli import ResidueSystem
from ...typing import Array
from .blocks import multiply_blocks
from .encoded import CpuEncoded
from .int8_gemm import select_kernel
from .microkernel import is_supported
from .packed import multiply_packed


def name_kernel() -> str:
    """Name what multiplies int8 here."""
    return "avx512-vnni" if is_supported() else select_kernel()


def multiply_planes(
    left: CpuEncoded,
    right: CpuEncoded,
    system: ResidueSystem,
    residues: Array,
    add: bool,
    own: Sequence[int],
    side: int,
) -> None:
    """Multiply the products `own`, or add to what is there.

    `side`: -1 for the lower triangle at least, 1 for the upper one, 0 for all.
    """
    args = (left, right, system, residues, add, own)
    if is_supported():
        multiply_packed(*args, side)
    else:
        multiply_blocks(*args)
