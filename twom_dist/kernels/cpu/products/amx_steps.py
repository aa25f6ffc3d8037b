"""The instructions of AMX in assembly language, and the steps made of them.

Neither Numba nor LLVM IR can use tiles, so llvmlite assembles text for any x86. Tiles 0
to 3 hold 32 x 32 sums, 4 and 5 rows of the left operand, 6 and 7 columns of the right
one. The sums stay from one of these functions to the next: LLVM does not use tiles
itself, and no call in between changes them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import initialize_native_asmparser

from ..jit import instructions
from ..planes import GROUP

# Bytes of a tile, and of a row of it.
TILE, LINE = 1024, 64
# Groups of columns that are reduced at once, whose residues fill lines, and bytes of a
# row of their sums.
ACROSS = LINE // GROUP
ROW_BYTES = ACROSS * LINE

initialize_native_asmparser()

# What `ldtilecfg` reads: palette 1, then bytes of a row and rows, of eight tiles each.
CONFIGURATION = np.zeros(64, np.uint8)
CONFIGURATION[0] = 1
CONFIGURATION[16:32].view(np.uint16)[:] = 64
CONFIGURATION[48:56] = 16
CONFIGURATION.flags.writeable = False


def _run(text, builder, *given):
    """Run instructions, whose operands are addresses and numbers."""
    kind = ir.FunctionType(ir.VoidType(), [x.type for x in given])
    constraints = ",".join([*("r" for _ in given), "~{memory}"])
    builder.asm(kind, text, constraints, given, True)


@instructions
def configure_tiles(builder, address):
    """Set up this thread's tiles, until `release_tiles`."""
    _run("ldtilecfg ($0)", builder, address)


@instructions
def release_tiles(builder):
    """Give up this thread's tiles: the system saves them as long as they are held."""
    _run("tilerelease", builder)


@instructions
def zero_sums(builder):
    """Begin 2 x 2 tiles of sums."""
    _run("\n".join(f"tilezero %tmm{t}" for t in range(4)), builder)


# Left tiles lie in the order in which they are taken: those of the step after the next
# are fetched into L1 meanwhile, since the four of a step come from L2 in 85 cycles.
_FETCHES = [f"    prefetcht0 {4 * TILE + LINE * i}($0)" for i in range(32)]


def _spread(instructions: Sequence[str]) -> str:
    """Put the fetches between instructions: at once they would keep loads waiting."""
    each, lines = len(_FETCHES) // len(instructions), []
    for i, instruction in enumerate(instructions):
        lines += [f"    {instruction}", *_FETCHES[each * i : each * (i + 1)]]
    right = [f"    prefetcht1 {x}(${i})" for i in (3, 4) for x in (0, LINE)]
    return "\n".join(right + lines)


_OPERANDS = {4: "($0,$5,1)", 5: f"{TILE}($0,$5,1)", 6: "($1,$5,1)", 7: "($2,$5,1)"}
_LOADS = {t: f"tileloadd {place}, %tmm{t}" for t, place in _OPERANDS.items()}
_PRODUCTS = [
    f"tdpbssd %tmm{right}, %tmm{left}, %tmm{t}"
    for t, (left, right) in enumerate(((4, 6), (4, 7), (5, 6), (5, 7)))
]
_FIRST_COLUMNS = [_LOADS[6], _LOADS[4], _PRODUCTS[0], _LOADS[5], _PRODUCTS[2]]
_MULTIPLY = _spread([*_FIRST_COLUMNS, _LOADS[7], _PRODUCTS[1], _PRODUCTS[3]])


@instructions
def multiply_tiles(builder, left, first, second, fetched, beside, line):
    """Add two left tiles times the right ones of two groups to the sums.

    Addresses, but `line`, bytes from row to row. Two lines each are fetched into L2,
    and left tiles into L1.
    """
    places = left, first, second, fetched, beside
    _run(_MULTIPLY, builder, *places, line)


# Tiles of sums, in memory: those of the second group of columns 64 bytes after the
# first, those of the second group of rows 16 rows below.
_PLACES = (0, LINE, GROUP * ROW_BYTES, GROUP * ROW_BYTES + LINE)
_STORES = [f"tilestored %tmm{t}, {x}($6,$7,1)" for t, x in enumerate(_PLACES)]


def _starter(begin: Sequence[str]) -> Any:
    """Make the first step of a block, between the sums of the one before.

    A sum is stored when its last product is finished, and those of the next block,
    which the processor would look for beyond all four stores, are multiplied meanwhile.
    Operands are loaded first: Intel's processors may have to load again what follows a
    store from an address with the same low 12 bits.
    """
    lines = [_LOADS[t] for t in (6, 4, 5, 7)]
    for t in (0, 2, 1, 3):
        lines += [_STORES[t], begin[t], _PRODUCTS[t]]
    text = _spread(lines)

    @instructions
    def start_block(
        builder, left, first, second, fetched, beside, line, before, row_bytes, sums
    ):
        """Store the sums at `before`, and multiply for those at `sums`."""
        places = left, first, second, fetched, beside
        _run(text, builder, *places, line, before, row_bytes, sums)

    return start_block


# The sums of a block begin, or go on from those that were stored.
begin_block = _starter([f"tilezero %tmm{t}" for t in range(4)])
resume_block = _starter(
    [f"tileloadd {x}($8,$7,1), %tmm{t}" for t, x in enumerate(_PLACES)]
)


@instructions
def store_sums(builder, sums, row_bytes):
    """Write the sums."""
    text = "\n".join(f"tilestored %tmm{t}, {x}($0,$1,1)" for t, x in enumerate(_PLACES))
    _run(text, builder, sums, row_bytes)
