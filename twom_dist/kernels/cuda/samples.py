"""Launches for samples of 8 bits modulo 2^32 or 2^64, which are read as they lie."""

from math import prod
from typing import Any

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from ..limits import FusedProduct
from . import tuning
from .cublas import align
from .device import CudaDevice
from .hopper import LINE
from .launch import (
    LINE_BLOCK,
    as_stack,
    count_matrices,
    lies_across,
    matrix,
    scalar,
    stack_stride,
    strides,
    tile_grid,
    triangle_arg,
)
from .planes import CudaEncoded
from .products import choose_squares, count_squares, launch_squares
from .sources import module_for, of_samples

_SECTOR, _BYTE = 32, np.dtype(np.int8)
# Bytes that are copied to shared memory at a time, and those of a row of a tile.
_CHUNK, _STEP = 16, 64
_PANEL = 1 << 15  # bytes along k whose sums int32 holds: 2^15 255 255 < 2^31


def encode_samples(
    device: CudaDevice, x: Array, system: ResidueSystem, conjugate: bool
) -> CudaEncoded:
    """Take integers of 8 bits, or pairs of them as 16 bits, as they lie, or a copy.

    Rows of all matrices have one distance; they and their ends lie at chunks.
    """
    *stack, rows, k = x.shape
    if x.dtype.kind == "b":
        x = x.view(np.uint8) != 0  # any other byte is True
    x, nbytes = as_stack(x), k * x.itemsize
    distance, (start,) = _distance(x), device.addresses((x,), device.number())
    lies = not any(t % _CHUNK for t in (nbytes, distance, start)) and distance >= nbytes
    lies = lies and (count_matrices(x) == 1 or x.strides[0] == rows * distance)
    if x.size and not (lies and x.strides[-1] == x.itemsize):
        given, width = x, align(nbytes, _CHUNK) // x.itemsize
        x = device.empty((*x.shape[:-1], width), x.dtype)
        _copy_samples(device, given, system, out=x)
    order = tuple(range(len(system.planes)))
    if conjugate:
        order = system.conjugate_planes or order
    return CudaEncoded(rows, k, x, order, tuple(stack))


def _distance(x: Array) -> int:
    """Bytes from a row to the next one, of all matrices."""
    steps = [t for t, n in zip(x.strides[:-1], x.shape[:-1], strict=True) if n > 1]
    return int(steps[-1]) if steps else align(x.shape[-1] * x.itemsize, _CHUNK)


def _copy_samples(
    device: CudaDevice,
    x: Array,
    system: ResidueSystem,
    part: int = -1,
    conjugate: bool = False,
    out: Array | None = None,
    x_sums: Array | None = None,
) -> None:
    """Launch copy_samples of samples.cu."""
    (rows, k), across = x.shape[-2:], x_sums is None and lies_across(x)
    width = k if out is None else out.shape[-1]
    own = _SECTOR // x.itemsize if across else tuning.ROWS_ALONG
    blocks = -(-rows // own) * -(-width // (4 * 256 // own))
    down = strides(x) if x_sums is None else (_distance(x) // x.itemsize, 1)
    args = x, rows, k, *down, stack_stride(x), part, out, x_sums, width
    module = module_for("samples", "c8" if system.parts == 2 else "f4")
    module = of_samples(module, system, x.dtype, x.dtype, conjugate)
    grid = blocks, count_matrices(x), 1
    device.launch(module, "copy_samples", grid, LINE_BLOCK, (*args, across, own))


def multiply_samples(
    device: CudaDevice,
    left: CudaEncoded,
    right: CudaEncoded,
    system: ResidueSystem,
    sums: Array,
    before: Array | None,
    triangle: Uplo,
) -> Array:
    """Add to `sums` what was there before, if it is another array, and the products."""
    if before is not None and before is not sums:
        sums[...] = before
    (x, y), shape = (left.planes, right.planes), (left.rows, right.rows)
    count, parts, nbytes = prod(left.stack), system.parts, left.k * x.itemsize
    nbytes = align(nbytes, _CHUNK)
    conjugated = [t.order[-1] + 1 < len(t.order) for t in (left, right)]
    conjugate, kinds = conjugated[0] != conjugated[1], (x.dtype, y.dtype)
    squares = choose_squares(device, (*shape, nbytes), triangle, count * parts, True)
    total = count * count_squares(*shape, triangle, squares.side)
    step, module = _STEP, of_samples(squares.module, system, *kinds, conjugate)
    if squares.kind == "wgmma":
        step, total = LINE, total * parts
        rows, x_sums = _turn_rows(device, x, y, system, conjugate)
        starts = device.addresses(rows, device.number())
        sizes = [(t[..., 0].size, nbytes, _distance(t)) for t in rows]
        maps = [device.map_rows(at, *x) for at, x in zip(starts, sizes, strict=True)]
        given = *maps, x_sums
    else:
        given = x, _distance(x), y, _distance(y)
        # Those of 64 leave room for twice the threads.
        resident = squares.resident / (parts if squares.side > 64 else 1)
        squares = squares._replace(threads=parts * squares.threads, resident=resident)
    wave = max(1, int(device.multiprocessors() * squares.resident))
    split, shares = _cut(total, nbytes, step, wave, sums.itemsize == 8)
    adds = before is not None or (split == 0 and shares > 1)
    if adds and before is None:
        sums[...] = 0  # for all shares at a time
    own = sums, *(t // sums.itemsize for t in (sums.strides[-2], sums.strides[0]))
    own = *own, -1 if conjugated[0] else 1
    args = *given, nbytes, *shape, own, triangle_arg(triangle), count
    args, end = (*args, split, shares, adds), total + (shares - 1) * (total - split)
    squares = squares._replace(module=module)
    for some in [range(end)] if adds else [range(total), range(total, end)]:
        launch_squares(device, squares, args, nbytes, some)
    return sums


def _cut(total: int, nbytes: int, step: int, wave: int, long: bool) -> tuple[int, int]:
    """Choose the first piece that is made in shares along k, and how many.

    Those of the last wave, which would leave multiprocessors idle, or all of long rows.
    """
    split, tail = total // wave * wave, total % wave
    shares = min(wave // tail, nbytes // tuning.SHORTEST_SHARE) if tail else 1
    if long and nbytes > _PANEL:
        shares = max(-(-nbytes // _PANEL), shares if split == 0 else 1)
        split = 0
    steps = -(-nbytes // step)
    shares = -(-steps // -(-steps // max(1, shares)))
    return (split, shares) if shares > 1 else (total, 1)


def _turn_rows(
    device: CudaDevice, x: Array, y: Array, system: ResidueSystem, conjugate: bool
) -> tuple[tuple[Array, Array, Array], Array | None]:
    """Make Y as each part of pairs takes it; and sums of the rows of X."""
    if system.parts == 1:
        return (x, y, y), None
    x_sums = device.full((x[..., 0].size,), system.residue_dtype)
    versions = [y, y]
    for part in range(conjugate, 2):  # of X conj(Y), Re takes Y as it is
        versions[part] = device.empty(y.shape, y.dtype)
        own = x_sums if part == 1 and x is y else None
        _copy_samples(device, y, system, part, conjugate, versions[part], own)
    if x is not y:
        _copy_samples(device, x, system, -1, conjugate, None, x_sums)
    return (x, *versions), x_sums


def decode_samples(
    device: CudaDevice,
    sums: Array,
    system: ResidueSystem,
    out: Array,
    alpha: complex,
    beta: complex,
    c: Array | None,
    triangle: Uplo,
    closes: tuple[bool, bool, bool] = (False, False, False),
) -> None:
    """Write ``alpha X Y^T + beta c`` from sums (parts, ..., m, n or more).

    `out`: (..., m, n), or of pairs of integers (..., m, n, 2); `closes`: whether to
    close a triangle, conjugated, in full.
    """
    (*stack, m, n), width = out.shape[: sums.ndim - 1], sums.shape[-1]
    args = (
        *(sums, width, prod(stack) * m * width, m, n, scalar(alpha), scalar(beta)),
        *(matrix(c), out, triangle_arg(triangle), *closes),
    )
    grid = tile_grid(m, n, 1, prod(stack))
    module = of_samples(module_for("samples", out.dtype), system, _BYTE, _BYTE)
    device.launch(module, "decode_samples", *grid, args)


def gemm_samples(
    engine: Any,
    product: FusedProduct,
    x: Array,
    y: Array,
    c: Array | None,
    out: Array | None,
) -> Array:
    """Compute a product of one tile; a triangle is closed as it is decoded."""
    system, uplo, device = product.system, product.uplo, engine.device
    x, y = (
        t.swapaxes(-1, -2) if turned else t
        for t, turned in zip((x, y), product.turned, strict=True)
    )
    left = encode_samples(device, x, system, product.conjugate[0])
    if product.twin is None:
        right = encode_samples(device, y, system, product.conjugate[1])
    else:
        right = left.reorder(product.twin)
    triangle: Uplo = "lower" if uplo == "full" else uplo or "full"
    sums = engine.multiply(left, right, system, triangle=triangle)
    if out is None:
        pair = (2,) * (product.dtype.kind == "i" and system.parts == 2)
        out = device.empty((*left.stack, left.rows, right.rows, *pair), product.dtype)
    closes = uplo is not None, product.hermitian, uplo == "full"
    scalars = product.alpha, product.beta
    decode_samples(device, sums, system, out, *scalars, c, triangle, closes)
    return out
