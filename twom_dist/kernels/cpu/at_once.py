"""A product of one tile: all stages, one after the other, each by one call."""

from collections.abc import Sequence
from itertools import starmap
from typing import Any

import numpy as np

from ...moduli import ResidueSystem, ScalingRule
from ...typing import Array, Uplo
from ..at_once import Known
from ..nonfinite import apply_fill, find_fill
from .decode import SIDES, decode_tile
from .encode import Rows, encode_rows
from .norms import choose_exponents, finite_exponents
from .threads import limit_threads, num_threads


def multiply_at_once(
    engine: Any,
    x: Array,
    y: Array,
    conjugate: tuple[bool, bool],
    system: ResidueSystem,
    rule: ScalingRule,
    dtype: Any,
    *,
    alpha: complex = 1,
    beta: complex = 0,
    c: Array | None = None,
    twin: tuple[int, ...] | None = None,
    uplo: Uplo | None = None,
    hermitian: bool = False,
    out: Array | None = None,
    shifts: Sequence[Array] | None = None,
    known: Sequence[Known] | None = None,
) -> Array:
    """Compute ``alpha X Y^T + beta c``; see `kernels.at_once`."""
    sides = (x,) if twin is not None else (x, y)
    if known is None:
        exponents = [np.zeros(t.shape[:-1], np.int32) for t in sides]
    else:
        exponents = [choose_exponents(*own, rule) for own in known]
    rows, columns = exponents[0], exponents[-1]
    given = zip(sides, (rows, columns), conjugate, shifts or (None, None), strict=False)
    triangle: Uplo = "full"
    if uplo is not None:
        triangle = "upper" if uplo == "upper" else "lower"
    few = hermitian and system.num_hermitian_products < system.num_products
    # Settings and cores are asked once for all stages.
    with limit_threads(num_threads()):
        encoded = encode_rows([*starmap(Rows, given)], system, None if known else rule)
        left, right = encoded[0], encoded[-1]
        if twin is not None:
            right = engine.reorder(left, twin)
        both = left, right, system
        residues = engine.multiply(*both, hermitian=few, triangle=triangle)
        # The planes' memory serves the result.
        del encoded, left, right, both
        tile = np.empty((*rows.shape, columns.shape[-1]), dtype) if out is None else out
        e, f, all_are = finite_exponents(rows, columns)
        scalars = alpha, beta, c, SIDES[triangle]
        decode_tile(residues, e, f, system, *scalars, 1, tile)
    if not all_are:
        fill = find_fill(x, y, rows, columns, conjugate)
        assert fill is not None
        apply_fill(fill, tile, alpha, beta, c)
    if uplo is not None:
        engine.close_diagonal(tile, conjugate=hermitian, uplo=uplo)
    return tile
