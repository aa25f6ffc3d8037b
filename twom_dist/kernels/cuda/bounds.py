"""Products of magnitudes: the launches of bounds.cu, and int8 products.

None of doubles and singles by cuBLAS: they may be emulated, by a setting of the
environment or of its handle, to fewer bits than those that decide about moduli.
"""

import numpy as np

from ...moduli import ZERO_ROW
from ...typing import Array
from . import norms
from .int8_gemm import LARGEST_K, align, largest_k
from .launch import LARGEST_STACK, Device, size_args, tile_grid
from .sources import module_for

# Pairs that are listed by the launch that counts them.
_LISTED = 1 << 14
_SIDE = 64  # of the squares of pairs that a block takes


# Places of the digits that a product multiplies: of one, and of two each.
_ONE, _TWO = ((0, 0),), ((0, 0), (0, 1), (1, 0))


def multiply_digits(device: Device, x: Array, y: Array, digits: int) -> Array:
    """Multiply leading digits: one product of planes, or three."""
    (m, k), n = x.shape, len(y)
    wide = digits == 2 or k > LARGEST_K
    dtype = np.int64 if wide else np.int32
    if 0 in (m, n, k):
        return device.filled((m, n), dtype)
    left, right = (_take_digits(device, t, digits) for t in (x, y))
    rows, columns, places = left.shape[1], right.shape[1], _TWO if digits == 2 else _ONE
    sums = device.empty((len(places), rows, columns), np.int32)
    # Where columns have no padding, the sums of the only product are the result.
    total = sums[0, :m]
    if wide or columns > n:
        total = device.empty((m, n), dtype)
    for lo in range(0, left.shape[2], LARGEST_K):
        a, b = (t[:, :, lo : lo + LARGEST_K] for t in (left, right))
        for q, (i, j) in enumerate(places):
            _multiply(device, a[i : i + 1], b[j : j + 1], sums[q : q + 1])
        if wide or columns > n:
            outs = (total, None) if wide else (None, total)
            args = sums, *size_args(*sums.shape), np.int32(lo > 0)
            args = *args, *outs, *size_args(m, n)
            device.launch(module_for("bounds"), "join_digits", *tile_grid(m, n), args)
    return total


def _take_digits(device: Device, x: Array, digits: int) -> Array:
    """Cut magnitudes to planes of bytes, padded with zeros."""
    rows, k = x.shape
    planes = device.empty((max(1, digits), align(rows), align(k)), np.int8)
    given = x, *size_args(rows, k), planes, *size_args(*planes.shape[1:])
    grid = tile_grid(*planes.shape[1:])
    args = *given, np.int32(digits)
    device.launch(module_for("bounds"), "take_digits", *grid, args)
    return planes


def _multiply(device: Device, x: Array, y: Array, sums: Array) -> None:
    """Write x y^T to sums, by what multiplies exactly on this device."""
    # A product that is too large makes a bound false: cuBLAS is checked here as well
    # where kernels of ours multiply all else.
    if device.exact_element() == "int8":
        device.multiply_int8(x, y, sums)
        return
    step = largest_k([2 * 127], "float16")
    parts = device.empty(sums.shape, np.float32)
    sums[...] = 0
    for lo in range(0, x.shape[2], step):
        left, right = (t[:, :, lo : lo + step].astype(np.float16) for t in (x, y))
        device.multiply_float16(left, right, parts)
        sums += parts.astype(np.int32)


def find_open(
    device: Device,
    products: Array,
    left: Array,
    right: Array,
    factor: float,
    most: int,
) -> tuple[Array, Array, Array] | None:
    """List pairs: again if there are more than the list holds."""
    m, n = products.shape
    if 0 in (m, n):
        none = np.zeros(0, np.int64)
        return none, none, none
    ends = [device.send(x) for x in (left, right)]
    given = (products, None) if products.dtype == np.int64 else (None, products)
    capacity, count = min(most, _LISTED), 0
    while True:
        parts = tuple(((size,), np.int64) for size in (1, capacity, capacity))
        found = device.filled_together(parts, 0)
        args = *given, *size_args(m, n), *ends, np.float64(factor)
        args = *args, np.int64(capacity), *found
        device.launch(module_for("bounds"), "find_open", *tile_grid(m, n), args)
        counted, places, own = device.fetch(found)
        count = int(counted[0])
        if count > most:
            return None
        if count <= capacity:
            break
        capacity = count
    order = np.argsort(places[:count])
    return *np.divmod(places[order], n), own[order]


def bound_pairs(
    device: Device, x: Array, y: Array, rows: Array, columns: Array, bits: int
) -> tuple[Array, Array]:
    """Sum products and find largest terms, a warp for each pair; and fetch both."""
    count, k = len(rows), x.shape[1]
    if 0 in (count, k):
        return np.zeros(count, np.int64), np.full(count, ZERO_ROW, np.int32)
    parts = ((count,), np.int64), ((count,), np.int32)
    sums, fields = device.filled_together(parts, 0)
    places = [device.send(np.asarray(t, np.int64)) for t in (rows, columns)]
    args = (x, y, *size_args(k, count), *places, np.int32(bits), sums, fields)
    grid = -(-count // 8), 1, 1
    device.launch(module_for("bounds"), "bound_pairs", grid, (32, 8, 1), args)
    sums, fields = device.fetch([sums, fields])
    # Exponents are 127 less than fields, and those of numbers begin at 1.
    return sums, np.where(fields == 0, np.int32(ZERO_ROW), fields - np.int32(254))


def smallest_cosines(
    device: Device,
    x: Array,
    y: Array,
    of_x: tuple[Array, Array],
    of_y: tuple[Array, Array],
    bits: int,
    places: Array,
) -> Array:
    """Multiply all pairs of rows, of norm 1, and keep the smallest; and fetch them."""
    count, (m, k), n = len(places), x.shape[1:], y.shape[1]
    # As floats they are above every cosine.
    found = device.filled((count,), np.uint32, 0x7F)
    squares = -(-m // _SIDE) * -(-n // _SIDE)
    where, largest = device.send(places.astype(np.int32)), device.send(of_x[0])
    others = largest if y is x else device.send(of_y[0])
    for lo in range(0, count if m * n * k else 0, LARGEST_STACK):
        part = slice(lo, lo + LARGEST_STACK)
        own = bits, where[part]
        left = right = norms.unit_rows(device, x, largest, of_x[1], *own)
        if y is not x:
            right = norms.unit_rows(device, y, others, of_y[1], *own)
        grid, sizes = (squares, 1, len(left)), (np.int64(n), np.int64(k))
        args = left, np.int64(m), right, *sizes, found[part]
        device.launch(module_for("bounds"), "smallest_sums", grid, (256, 1, 1), args)
    return np.minimum(device.fetch([found])[0].view(np.float32), np.float32(1))
