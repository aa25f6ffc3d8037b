"""A product of one tile: all stages, one after the other, each by one call."""

from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from ..limits import FusedProduct
from ..nonfinite import apply_nonfinite, find_nonfinite
from ..statistics import RowStatistics
from .analysis.norms import finite_exponents
from .buffers import take_bytes
from .decode.decode import BAND, decode_tile
from .decode.mirrors import fill_mirrors, fill_rows, mirror_table
from .decode.triangles import row_closer
from .encode.encode import encode_rows
from .planes import BYTE, SIDES, as_whole
from .products.multiply import multiply_planes
from .threads import limit_threads, num_threads


def gemm_fused(
    engine: Any,
    product: FusedProduct,
    x: Array,
    y: Array,
    *,
    c: Array | None = None,
    out: Array | None = None,
    shifts: Sequence[Array] | None = None,
    known: Sequence[RowStatistics] | None = None,
) -> Array:
    """Compute ``alpha X Y^T + beta c``; see `kernels.limits`."""
    conjugate, system, rule, dtype, alpha, beta, twin, uplo, hermitian, turned, *_ = (
        product
    )
    x = x.swapaxes(-1, -2) if turned[0] else x
    y = y.swapaxes(-1, -2) if turned[1] else y
    plan = _plan(x.shape, y.shape, twin is None, system)
    end, first, length, shape, nbytes, of_tile = plan
    # In one line: those of columns, unless they are the rows', after those of rows.
    line = np.empty(length, np.int32)
    rows, columns = line[:end], line[first:]
    of_x, of_y = shifts or (None, None)
    # Planes of an update may not serve both sides, but what is known does.
    own, other = (None, None) if known is None else (known[0], known[-1])
    operands = [(x, rows, conjugate[0], of_x, own)]
    if twin is None:
        operands.append((y, columns, conjugate[1], of_y, other))
    triangle: Uplo = "full"
    if uplo is not None:
        triangle = "upper" if uplo == "upper" else "lower"
    side = SIDES[triangle]
    few = hermitian and system.num_hermitian_products < system.num_products
    # Settings and cores are asked once for all stages.
    with limit_threads(num_threads()):
        encoded = encode_rows(operands, system, rule)
        left, right = encoded[0], encoded[-1]
        if twin is not None:
            right = left.reorder(twin)
        residues: Array = np.ndarray(shape, BYTE, take_bytes(nbytes))
        multiply_planes(left, right, system, residues, None, few, triangle)
        # Bands of rows are derived, decoded and closed while they are in cache, if they
        # are enough: two for each thread, one longer and one shorter, take equal times.
        bands, before, after = -(-x.shape[-2] // BAND), None, None
        one = x.ndim == 2 and bands >= 2 * num_threads()
        if few and one:
            before = partial(fill_rows, residues, mirror_table(system), side)
        elif few:
            fill_mirrors(system, residues, side)
        # The planes' memory serves the result.
        del encoded, left, right
        tile = np.empty(of_tile, dtype) if out is None else out
        finite, all_are = finite_exponents(line)
        if uplo is not None and one and all_are:
            after = row_closer(tile, hermitian, uplo)
        given = residues, finite[:end], finite[first:], system
        decode_tile(*given, alpha, beta, c, side, 1, tile, before, after)
    if not all_are:
        exponents = rows.reshape(x.shape[:-1]), columns.reshape(y.shape[:-1])
        fill = find_nonfinite(x, y, *exponents, conjugate)
        assert fill is not None
        apply_nonfinite(fill, tile, alpha, beta, c)
    if uplo is not None and after is None:
        engine.symmetrise_diagonal_tile(tile, conjugate=hermitian, uplo=uplo)
    return tile


@lru_cache(maxsize=1024)
def _plan(
    x: tuple[int, ...], y: tuple[int, ...], two: bool, system: ResidueSystem
) -> tuple[Any, ...]:
    """Plan operands of these shapes, `two` or twins.

    Returns where rows end and columns begin among exponents, how many these are, and
    the shape of residues, their bytes, and the shape of the result.
    """
    (*stack, m, _), n, end = x, y[-2], prod(x[:-1])
    first = end if two else 0
    shape = system.num_products, prod(stack), m, as_whole(n)
    return end, first, first + prod(y[:-1]), shape, prod(shape), (*stack, m, n)
