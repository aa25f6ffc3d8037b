"""Stacks of NumPy and CuPy arrays: small matrices together, others one by one."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..errors import PlanError
from ..kernels.device_memory import empty
from ..kernels.family import deliver, namespace
from ..kernels.fused_gemm import FusedGemm
from ..kernels.limits import Shape
from ..kernels.statistics import RowStatistics
from ..problem.problem import Problem
from ..tiles.blocks import cast
from ..tiles.diagonal import as_entries, scale_stored
from ..tiles.grid import whole
from ..tiles.integers import gather
from ..tiles.interpreter import Found, Line
from ..tiles.look.certain import certain_systems
from ..tiles.look.in_memory import plan_analysis
from ..tiles.spec import SIDES, Spec, as_rows, load_engine
from ..tiles.tasks import call_fused
from ..typing import Array, Side
from . import eager

# Rows, columns and k of matrices that are computed together: larger ones gain nothing,
# and tiles, strips and Winograd's algorithm work on one matrix.
LARGEST = 512
# k of integers, which nothing looks at: 64 matrices of 16 x 8192 pairs take 14 ms
# together and 30 one by one (one core of an AMD Zen 5; not recorded).
# A sum of int8 products stays below 2^27.
LARGEST_EXACT = 8192


def compute(problem: Problem) -> Any:
    """Compute the products of stacks: one array, or two with two components."""
    stack, spec, dtype = problem.stack, problem.spec, problem.dtype
    a = _as_stack(problem.a, "left", spec, stack)
    b = a if spec.twins else _as_stack(problem.b, "right", spec, stack)
    c = None if problem.c is None else _broadcast(cast(problem.c, dtype), stack)
    left: Iterable[tuple[int, ...]] = np.ndindex(*stack)
    together = _are_small(problem.shape, spec) or spec.native or spec.empty
    if together and spec.components == 1:
        found = compute_stack(a, b, spec, c, problem.out, problem.diag)
        results = [found.values]
        left = (_place(i, stack) for i in found.alone)
    else:
        shape = *stack, *problem.shape[:2]
        results = [empty(namespace(a), shape, dtype) for _ in range(spec.components)]
        if problem.out is not None:
            results = [problem.out]
    for place in left:
        # With two components the routine makes its own arrays.
        out = results[0][place] if spec.components == 1 else None
        beside = None if c is None else c[place]
        one = replace(problem, a=a[place], b=b[place], c=beside, stack=(), out=out)
        components = eager.compute(one)
        if spec.components == 2:
            for result, component in zip(results, components, strict=True):
                result[place] = component
    return tuple(results) if spec.components == 2 else results[0]


def _are_small(shape: Shape, spec: Spec) -> bool:
    """Tell whether matrices are computed together."""
    m, n, k = shape
    longest = LARGEST
    if spec.exact:
        # Nothing looks at them: few long rows are as small as a square.
        longest = min(LARGEST_EXACT, LARGEST**2 // max(1, m, n))
    return max(m, n) <= LARGEST and k <= longest


def _as_stack(x: Array, side: Side, spec: Spec, stack: tuple[int, ...]) -> Array:
    x = eager.as_tiles(x, side, spec)
    return _broadcast(gather(x) if spec.stored else x, stack)


def _broadcast(x: Array, stack: tuple[int, ...]) -> Array:
    """View a stack with all the axes in front."""
    return namespace(x).broadcast_to(x, (*stack, *x.shape[-2:]))


def _place(index: int, stack: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(int, np.unravel_index(index, stack)))


class Stacked(NamedTuple):
    """Products of stacks, and the places of those that are still to be computed."""

    values: Array
    alone: list[int]


def compute_stack(
    a: Array,
    b: Array,
    spec: Spec,
    c: Array | None = None,
    out: Array | None = None,
    diag: Array | None = None,
) -> Stacked:
    """Compute ``alpha op(A) op(B) + beta C`` of every A, B and C of three stacks.

    Parameters
    ----------
    a, b : (..., rows, columns)
        Of the dtype of the result, or integers of an exact product; the same axes in
        front; b is a for an update.
    spec : Spec
        Of each product: its k. By entries, each takes its own moduli.
    c : (..., m, n), optional
    out : (..., m, n), optional
        Array of the result and its dtype; it overlaps no other.
    diag : (k,), optional
        Of all products.

    Returns
    -------
    Stacked
        With the places, in the list of all matrices, of products whose moduli are
        uncertain; the values there mean nothing.
    """
    stack, m, n = _check(a, b, c, spec, out)
    found = out
    if found is None or not found.flags.c_contiguous:
        found = empty(namespace(a), (*stack, m, n), spec.dtype)
    if found.size == 0 or (spec.empty and c is None):
        found[...] = 0
        return Stacked(deliver(found, out), [])
    a, b, listed = (x.reshape(prod(stack), *x.shape[-2:]) for x in (a, b, found))
    c = None if c is None else c.reshape(listed.shape)
    entries = None if diag is None else as_entries(spec, diag)
    alone: list[int] = []
    gemm_fused: FusedGemm | None = None

    def compute(own: slice) -> None:
        left = a[own] if entries is None else scale_stored(a[own], entries, spec)
        given = left, b[own], None if c is None else c[own]
        missing = _compute_piece(*given, spec, listed[own], gemm_fused)
        alone.extend(own.start + place for place in missing)

    if spec.native:
        compute(slice(0, len(listed)))
    else:
        engine, shape = load_engine(spec), (m, n, spec.k)
        limits = engine.tile_limits(spec.system, shape)
        spec = replace(spec, cache_bytes=limits.cache_bytes if spec.twins else 0)
        mirrored = spec.routine.triangle and not spec.twins
        gemm_fused = None if spec.exact or mirrored else limits.gemm_fused
        engine.run_stack(compute, len(listed), spec.system, shape)
    return Stacked(deliver(found, out), sorted(alone))


def _compute_piece(
    a: Array,
    b: Array,
    c: Array | None,
    spec: Spec,
    out: Array,
    gemm_fused: FusedGemm | None,
) -> list[int]:
    """Compute products; return the places of those whose moduli are not certain."""
    if spec.native or spec.empty or spec.exact:
        _multiply(a, b, c, spec, None, out)
        return []
    if spec.equilibrate and not spec.by_entries:
        # Each matrix takes shifts of its own.
        return list(range(len(a)))
    if gemm_fused is not None and not spec.by_entries:
        _multiply_fused(gemm_fused, a, b, c, spec, out, {})
        return []
    if not spec.by_entries:
        _multiply(a, b, c, spec, None, out)
        return []
    found = defaultdict(list)
    sides = zip((a, b), spec.sides, strict=False)
    analysis = plan_analysis(spec)([as_rows(x, s, spec.op(s)) for x, s in sides])
    measured: dict[Line, RowStatistics] = {
        (side, 0): x for side, x in zip(spec.sides, analysis.statistics(), strict=True)
    }
    for place, system in enumerate(certain_systems(analysis, spec)):
        found[system].append(place)
    alone = found.pop(None, [])
    for system, places in found.items():
        settled = replace(spec.settle(system), equilibrate=False)
        own, given, tiles = measured, (a, b, c), out
        if len(places) < len(a):
            own = {x: y.take(places) for x, y in measured.items()}
            left = a[places]
            right = left if spec.twins else b[places]
            given = left, right, None if c is None else c[places]
            tiles = empty(namespace(out), (len(places), *out.shape[1:]), out.dtype)
        if gemm_fused is None:
            _multiply(*given, settled, own, tiles)
        else:
            _multiply_fused(gemm_fused, *given, settled, tiles, own)
        if tiles is not out:
            out[places] = tiles
    return alone


def _multiply_fused(
    gemm_fused: FusedGemm,
    a: Array,
    b: Array,
    c: Array | None,
    spec: Spec,
    out: Array,
    measured: dict[Line, RowStatistics],
) -> None:
    """Compute products of one residue system by one call."""
    x, y = (as_rows(t, s, spec.op(s)) for t, s in zip((a, b), SIDES, strict=True))
    known = [*measured.values()] or None
    call_fused(gemm_fused, spec)(x, y, c=c, out=out, known=known)


def _multiply(
    a: Array,
    b: Array,
    c: Array | None,
    spec: Spec,
    measured: dict[Line, RowStatistics] | None,
    out: Array,
) -> None:
    """Compute products of one residue system, or of the BLAS."""
    grid = whole((*out.shape[1:], spec.k))
    eager.Eager(a, b, c, grid, spec, out).run(Found(spec, None, measured))


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
