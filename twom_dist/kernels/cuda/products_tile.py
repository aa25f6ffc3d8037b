"""Products: int8 planes -> residues of X Y^T modulo every p, one pass, in cuTile.

``make tiles`` writes Tile IR beside this file, which the driver compiles for its GPU:
the package imports neither this file nor cuTile. A tile block makes a square of
residues of one product; on Blackwell by TMA and tcgen05.
"""

from typing import Any

import cuda.tile as ct

STEP = 128  # entries along k of a copy
CHUNK = 7  # copies whose sums are below 2^24, which float32 holds: 896 128^2
BAND = 8  # rows of squares that blocks walk down, see squares.cuh


def locate_square(index: int, rows: int, columns: int, triangle: int) -> Any:
    """Find a square of a tile, or of the triangle that arithmetic.cuh numbers."""
    top = 0
    if triangle == 0:
        top = index // (BAND * columns) * BAND
        index = index - top * columns
    else:
        # Bands: whole columns, then a triangle.
        height = min(rows, BAND)
        count = height * (height + 1) // 2
        while index >= count:
            index = index - count
            top = top + BAND
            height = min(rows - top, BAND)
            count = height * top + height * (height + 1) // 2
    height = min(rows - top, BAND)
    row = top + index % height
    column = index // height
    if triangle != 0 and index >= height * top:
        # The last line and the first have as many squares as the next two inwards.
        index = index - height * top
        line = height - 1 - index // (height + 1)
        place = index % (height + 1)
        if place > line:
            place = place - line - 1
            line = height - 1 - line
        row = top + line
        column = top + place
    if triangle == 2:
        index = row
        row = column
        column = index
    return row, column


def load_rows(x: Any, plane: int, matrix: int, row: int, step: int, side: int) -> Any:
    """Copy a square's rows of a plane, zeros beyond its ends."""
    index, shape, zeros = (
        (plane, matrix, row, step),
        (1, 1, side, STEP),
        ct.PaddingMode.ZERO,
    )
    found = ct.load(x, index=index, shape=shape, padding_mode=zeros)
    return ct.reshape(found, (side, STEP))


def products_tile(
    x: Any,
    y: Any,
    jobs: Any,
    table: Any,
    old: Any,
    residues: Any,
    adds: int,
    triangle: int,
    rows: int,
    columns: int,
    job_count: int,
    first: int,
    SIDE: ct.Constant[int],
    FLOATS: ct.Constant[bool],
) -> None:
    """Make square number `first` plus that of the block.

    x and y are planes (planes, stack, rows, k), old and residues (products, stack, m,
    n), jobs and the table those of products.cu, flat. Old residues are added if `adds`
    is not 0, and may be those that are written. Sums are 2^30 at most. `FLOATS`: for
    tensor cores without int8, which multiply float16 and sum in float32.
    """
    index = first + ct.bid(0)
    count = rows * columns
    if triangle != 0:
        count = rows * (rows + 1) // 2
    job = index // count % job_count * 4
    matrix = index // count // job_count
    row, column = locate_square(index % count, rows, columns, triangle)
    left = ct.load(jobs, index=(job,), shape=(1,)).item()
    right = ct.load(jobs, index=(job + 1,), shape=(1,)).item()
    product = ct.load(jobs, index=(job + 2,), shape=(1,)).item()
    entry = 4 * ct.load(jobs, index=(job + 3,), shape=(1,)).item()
    sums = ct.zeros((SIDE, SIDE), dtype=ct.int32)
    steps = ct.cdiv(x.shape[3], STEP)
    if FLOATS:
        for chunk in range(0, steps, CHUNK):
            some = ct.zeros((SIDE, SIDE), dtype=ct.float32)
            for step in range(chunk, min(chunk + CHUNK, steps)):
                a = ct.astype(load_rows(x, left, matrix, row, step, SIDE), ct.float16)
                b = load_rows(y, right, matrix, column, step, SIDE)
                some = ct.mma(a, ct.transpose(ct.astype(b, ct.float16)), some)
            sums = sums + ct.astype(some, ct.int32)
    else:
        for step in range(steps):
            a = load_rows(x, left, matrix, row, step, SIDE)
            b = load_rows(y, right, matrix, column, step, SIDE)
            sums = ct.mma(a, ct.transpose(b), sums)
    # 2^16 modulo p, of least magnitude: |raw| <= 2^14 128 + 2^16 + 128 < 2^22.
    minus_p = ct.load(table, index=(entry + 3,), shape=(1,)).item()
    weight = ct.load(table, index=(entry,), shape=(1,)).item() >> 16 & 255
    if 2 * weight + minus_p > 0:
        weight = weight + minus_p
    raw = (sums >> 16) * weight + (sums & 0xFFFF)
    if adds != 0:
        before = ct.load(
            old, index=(product, matrix, row, column), shape=(1, 1, SIDE, SIDE)
        )
        raw = raw + ct.astype(ct.reshape(before, (SIDE, SIDE)), ct.int32)
    # 1.5 2^23 rounds raw / p: the bits are 0x4B400000, which is 0 modulo 256, plus
    # rint(raw / p). The quotient is off by |raw| 2^-23 / p < 1 / (2p), even if it is
    # rounded before the sum; for odd p no tie is so near. For p = 256 it is exact, and
    # a tie gives 128 or -128, which have one byte.
    inverse = ct.load(table, index=(entry + 2,), shape=(1,)) - (126 << 23)
    inverse = ct.bitcast(inverse, ct.float32).item()
    shifted = ct.astype(raw, ct.float32) * inverse + 12582912.0
    raw = raw + ct.bitcast(shifted, ct.int32) * minus_p
    out = ct.reshape(ct.astype(raw, ct.int8), (1, 1, SIDE, SIDE))
    ct.store(residues, index=(product, matrix, row, column), tile=out)
