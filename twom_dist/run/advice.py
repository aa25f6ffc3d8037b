"""Advice about a product: what would be faster or smaller than the request."""

from math import prod

from dask.utils import format_bytes

from ..auto.choose import prefers_native, tell_choice
from ..plan import SMALLEST_TILE, Layout
from ..problem.problem import Problem

_LEAST_PRODUCT = 2**30  # smaller products take a second or so, natively or not
# An op seems wrong if the other's side is smaller by this: few want so low a rank.
_RANK_FACTOR = 8
_MANY_TILES = 1000  # fewer take a second or so, too


def advise_method(posed: Problem) -> list[str]:
    """Say that the native product is faster, or not known to be slower, and why.

    Nothing is said of small products, nor where a method or an accuracy was given.
    """
    spec, asked = posed.spec, posed.choice.chosen or posed.choice.decisive
    if spec.native or asked or prod(posed.shape) < _LEAST_PRODUCT:
        return []
    engine, routine = spec.engine, spec.routine.name
    if not prefers_native(engine, routine, posed.dtype, posed.shape):
        return []
    told = tell_choice(engine, routine, posed.dtype, posed.shape)
    library = "CuPy" if engine == "cuda" else "NumPy"
    return [f"{library} may be as fast: method='auto' would be {told}"]


def advise_chunks(layout: Layout) -> list[str]:
    """Say that tiles are so small that dask takes longer for them than the engine."""
    sides, products = layout.tile_shape, layout.num_computed * layout.grid.kt
    if max(sides) >= SMALLEST_TILE or products < _MANY_TILES:
        return []
    tile = " x ".join(map(str, sides))
    return [f"tiles of {tile} take longer than larger ones: give chunks of 512 or more"]


def advise_op(posed: Problem) -> list[str]:
    """Say how large the result is where the other op makes a far smaller one."""
    (n, _, k), spec = posed.shape, posed.spec
    if not spec.routine.triangle or n < _RANK_FACTOR * max(1, k):
        return []
    other = "C" if spec.routine.hermitian else "T"
    other = other if spec.op_a == "N" else "N"
    size = format_bytes(n * n * posed.dtype.itemsize * spec.components)
    return [f"C is {n} x {n}, {size}; with op {other} it would be {k} x {k}"]
