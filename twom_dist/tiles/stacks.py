"""Stacks: products of many matrices of one shape, each as if it were alone."""

from dataclasses import replace
from math import prod

from ..errors import PlanError
from ..kernels.family import namespace
from ..typing import Array, Side
from . import tasks
from .cells import Operand, compute_cell
from .spec import Spec, as_rows, load_engine


def compute_stack(
    a: Array, b: Array, spec: Spec, c: Array | None = None, out: Array | None = None
) -> Array:
    """Compute ``alpha op(A) op(B) + beta C`` of every A, B and C of three stacks.

    Parameters
    ----------
    a, b : (..., rows, columns)
        Of the dtype of the result, the same axes in front; b is a for an update.
    spec : Spec
        Of each product: its k, and moduli that are settled.
    c : (..., m, n), optional
    out : (..., m, n), optional
        Where it is written, of the dtype of the result; it overlaps no other.
    """
    stack, m, n = _check(a, b, c, spec, out)
    engine, shape = load_engine(spec), (m, n, spec.k)
    limits = engine.tile_limits(spec.system, shape)
    spec = replace(spec, cache_bytes=limits.cache_bytes if spec.twins else 0)
    found = out
    if found is None or not found.flags.c_contiguous:
        found = namespace(a).empty((*stack, m, n), spec.dtype)
    if found.size == 0:
        return found
    a, b, listed = (x.reshape(prod(stack), *x.shape[-2:]) for x in (a, b, found))
    c = None if c is None else c.reshape(listed.shape)

    def compute(own: slice) -> None:
        products = []
        if not spec.empty:
            left = _scale(a[own], "left", spec)
            right = left if spec.twins else _scale(b[own], "right", spec)
            products = [(left, right)]
        beside, place = None if c is None else c[own], listed[own]
        diagonal = spec.routine.triangle
        tile = compute_cell(products, spec, diagonal, None, beside, place)
        if tile is not place:
            place[...] = tile

    engine.run_stack(compute, len(listed), spec.system, shape)
    if out is None or found is out:
        return found
    out[...] = found
    return out


def _scale(tile: Array, side: Side, spec: Spec) -> Operand:
    return Operand([tile], tasks.scale_in_one(tile, side, spec))


def _check(
    a: Array, b: Array, c: Array | None, spec: Spec, out: Array | None
) -> tuple[tuple[int, ...], int, int]:
    """Return the axes in front, m and n, or say what does not fit."""
    left, right = as_rows(a, "left", spec.op_a), as_rows(b, "right", spec.op_b)
    *stack, m, k = left.shape
    shape = *stack, m, right.shape[-2]
    fits = right.shape == (*stack, shape[-1], k) and k == spec.k
    if not fits or any(x is not None and x.shape != shape for x in (c, out)):
        shapes = " and ".join(str(x.shape) for x in (a, b, c, out) if x is not None)
        raise PlanError(
            f"stacks of the shapes {shapes} do not multiply matrix by matrix",
            "Give all the same axes in front of matrices that fit",
            "stack-shapes",
        )
    return tuple(stack), m, shape[-1]
