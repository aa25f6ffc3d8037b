"""A product of one tile: all stages, one after the other, each by one call."""

from collections.abc import Sequence
from itertools import starmap
from typing import Any

import numpy as np

from ...moduli import ResidueSystem, ScalingRule
from ...typing import Array, Uplo
from ..at_once import Known
from .encode import Rows, encode_rows


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
        exponents = [engine.choose_exponents(*own, rule) for own in known]
    rows, columns = exponents[0], exponents[-1]
    given = zip(sides, (rows, columns), conjugate, shifts or (None, None), strict=False)
    encoded = encode_rows([*starmap(Rows, given)], system, None if known else rule)
    left, right = encoded[0], encoded[-1]
    if twin is not None:
        right = engine.reorder(left, twin)
    triangle: Uplo = "full"
    if uplo is not None:
        triangle = "upper" if uplo == "upper" else "lower"
    few = system.num_hermitian_products < system.num_products
    residues = engine.multiply(
        left, right, system, hermitian=hermitian and few, triangle=triangle
    )
    # The planes' memory serves the result.
    del encoded, left, right
    found = residues, rows, columns, system, dtype
    scalars: Any = {"alpha": alpha, "beta": beta, "c": c}
    tile: Array = engine.decode(*found, **scalars, triangle=triangle, out=out)
    fill = engine.find_fill(x, y, rows, columns, conjugate)
    if fill is not None:
        engine.apply_fill(fill, tile, alpha, beta, c)
    if uplo is not None:
        engine.close_diagonal(tile, conjugate=hermitian, uplo=uplo)
    return tile
