"""Stacks of NumPy and CuPy arrays: small matrices together, others one by one."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..errors import PlanError
from ..kernels.device_memory import empty
from ..kernels.family import deliver, namespace
from ..kernels.limits import FusedGemm, Shape
from ..kernels.statistics import RowStatistics
from ..moduli import ResidueSystem
from ..problem.problem import Problem
from ..tiles.analysis.in_memory import certain_systems, plan_analysis
from ..tiles.blocks import cast
from ..tiles.grid import whole
from ..tiles.integers import gather
from ..tiles.interpreter import Findings
from ..tiles.rows import Row
from ..tiles.spec import Spec, as_rows, load_engine, turned
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
    b = a if spec.same_operand else _as_stack(problem.b, "right", spec, stack)
    c = None if problem.c is None else _broadcast(cast(problem.c, dtype), stack)
    if _are_small(problem.shape, spec):
        found = compute_stack(a, b, spec, c, problem.out, problem.scaling())
        results, left = [found.values], found.alone
    else:
        shape = *stack, *problem.shape[:2]
        results = [empty(namespace(a), shape, dtype) for _ in range(spec.components)]
        if problem.out is not None:
            results = [problem.out]
        left = [*range(prod(stack))]
    _compute_alone(replace(problem, a=a, b=b, c=c), left, results)
    return tuple(results) if spec.components == 2 else results[0]


def _compute_alone(
    problem: Problem, places: Sequence[int], results: Sequence[Array]
) -> None:
    """Compute the matrices of some places, one by one, into the results."""
    for index in places:
        place = tuple(map(int, np.unravel_index(index, problem.stack)))
        # With two components the routine makes its own arrays.
        out = results[0][place] if len(results) == 1 else None
        c = None if problem.c is None else problem.c[place]
        a, b = problem.a[place], problem.b[place]
        components = eager.compute(replace(problem, a=a, b=b, c=c, stack=(), out=out))
        if out is None:
            for result, component in zip(results, components, strict=True):
                result[place] = component


def _are_small(shape: Shape, spec: Spec) -> bool:
    """Tell whether matrices are computed together."""
    if spec.components == 2:
        return False
    if spec.native or spec.empty:
        return True
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
    scaled: Callable[[Array], Array] | None = None,
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
    scaled : callable, optional
        Makes of some matrices A, as they are stored, those that are multiplied.

    Returns
    -------
    Stacked
        With the places, in the list of all matrices, of products whose moduli are
        uncertain; the values there mean nothing.
    """
    stack, shape = _check(a, b, c, spec, out)
    return PreparedStack(spec, stack, shape).multiply(a, b, c, out, scaled)


class PreparedStack:
    """Products of stacks of small matrices, without the arrays.

    Those that are `steady` serve all stacks like the first.
    """

    def __init__(
        self, spec: Spec, stack: tuple[int, ...], shape: tuple[int, int]
    ) -> None:
        self._stack, self._shape, self.steady = stack, shape, False
        self.adds, self.used = spec.beta != 0, 0
        gemm_fused: FusedGemm | None = None
        self._run: Callable[..., None] | None = None
        if not spec.native:
            engine, system, sizes = load_engine(spec), spec.system, (*shape, spec.k)
            self._run = partial(
                engine.run_stack, count=prod(stack), system=system, shape=sizes
            )
            limits = engine.tile_limits(system, sizes)
            spec = replace(
                spec, cache_bytes=limits.cache_bytes if spec.same_operand else 0
            )
            self.steady = limits.steady
            if not (spec.exact or (spec.routine.triangle and not spec.same_operand)):
                gemm_fused = limits.gemm_fused
        self._spec, self._gemm_fused, self._turned = spec, gemm_fused, turned(spec)
        self._operands = len(spec.sides)
        # The data decide about moduli, or about shifts, which each matrix has alone.
        self._looks = spec.looks and not (spec.native or spec.empty or spec.exact)
        self._analyse = plan_analysis(spec) if spec.data_driven else None
        # What multiplies by each residue system that has been asked for.
        self._ways: dict[ResidueSystem | None, Callable[..., None]] = {}

    @classmethod
    def of(cls, problem: Problem) -> "PreparedStack | None":
        """Prepare products; None where they are not computed together as they are."""
        spec, given = problem.spec, (problem.a, problem.b, problem.c)
        if spec.lazy or spec.native or spec.empty:
            return None
        if any(x is not None and x.dtype != problem.dtype for x in given):
            return None
        if not _are_small(problem.shape, spec):
            return None
        found = cls(spec, problem.stack, problem.shape[:2])
        return found if found.steady else None

    def run(
        self,
        a: Array,
        b: Array,
        c: Array | None,
        out: Array | None,
        pose: Callable[[], Problem],
    ) -> Any:
        """Compute the products of stacks like those that they were prepared for.

        `pose`: gives the problem of these, where some are computed one by one.
        """
        a, b = _broadcast(a, self._stack), _broadcast(b, self._stack)
        c = None if c is None else _broadcast(c, self._stack)
        found = self.multiply(a, b, c, out)
        if found.alone:
            problem = replace(pose(), a=a, b=b, c=c)
            _compute_alone(problem, found.alone, [found.values])
        return found.values

    def multiply(
        self,
        a: Array,
        b: Array,
        c: Array | None,
        out: Array | None,
        scaled: Callable[[Array], Array] | None = None,
    ) -> Stacked:
        """Multiply stacks; see `compute_stack`."""
        spec, count = self._spec, prod(self._stack)
        found = out
        if found is None or not found.flags.c_contiguous:
            found = empty(namespace(a), (*self._stack, *self._shape), spec.dtype)
        if found.size == 0 or (spec.empty and c is None):
            found[...] = 0
            return Stacked(deliver(found, out), [])
        listed = found.reshape(count, *self._shape)
        a, b = a.reshape(count, *a.shape[-2:]), b.reshape(count, *b.shape[-2:])
        c = None if c is None else c.reshape(listed.shape)
        alone: list[int] = []

        def compute(own: slice) -> None:
            left = a[own] if scaled is None else scaled(a[own])
            added = None if c is None else c[own]
            for place in self._compute(left, b[own], added, listed[own]):
                alone.append(own.start + place)

        if self._run is None:
            compute(slice(0, count))
        else:
            self._run(compute)
        return Stacked(deliver(found, out), sorted(alone))

    def _compute(self, a: Array, b: Array, c: Array | None, out: Array) -> list[int]:
        """Compute products; return the places of those whose moduli are uncertain."""
        if not self._looks:
            self._by(None)(a, b, c, out)
            return []
        if self._analyse is None:
            return [*range(len(a))]
        analysis = self._analyse(self._rows(a, b)[: self._operands])
        known, found = analysis.statistics(), defaultdict[Any, list[int]](list)
        for place, system in enumerate(certain_systems(analysis, self._spec)):
            found[system].append(place)
        alone = found.pop(None, [])
        for system, places in found.items():
            if len(places) == len(a):
                self._by(system)(a, b, c, out, known)
                continue
            left = a[places]
            right = left if self._spec.same_operand else b[places]
            added = None if c is None else c[places]
            tiles = empty(namespace(out), (len(places), *out.shape[1:]), out.dtype)
            own = [x.take(places) for x in known]
            self._by(system)(left, right, added, tiles, own)
            out[places] = tiles
        return alone

    def _by(self, system: ResidueSystem | None) -> Callable[..., None]:
        """Return what multiplies by moduli that the data chose, or by those given."""
        found = self._ways.get(system)
        if found is None:
            spec = self._spec
            if system is not None:
                spec = replace(spec.with_moduli(system), equilibrate=False)
            if self._gemm_fused is None or spec.empty:
                found = partial(_multiply, spec)
            else:
                found = partial(self._fuse, call_fused(self._gemm_fused, spec))
            self._ways[system] = found
        return found

    def _fuse(
        self, multiply: Any, a: Array, b: Array, c: Any, out: Array, known: Any = None
    ) -> None:
        multiply(*self._rows(a, b), c=c, out=out, known=known)

    def _rows(self, a: Array, b: Array) -> tuple[Array, Array]:
        """View stacks as rows of op(A) and of op(B)^T."""
        turn_a, turn_b = self._turned
        x = a.swapaxes(-1, -2) if turn_a else a
        return x, b.swapaxes(-1, -2) if turn_b else b


def _multiply(
    spec: Spec,
    a: Array,
    b: Array,
    c: Array | None,
    out: Array,
    known: Sequence[RowStatistics] | None = None,
) -> None:
    """Compute products of one residue system, or of the BLAS, stage by stage."""
    measured = known and {
        (side, 0): x for side, x in zip(spec.sides, known, strict=True)
    }
    grid = whole((*out.shape[1:], spec.k))
    rows = Row("left", [a]), Row("right", [b])
    eager.Eager(rows, c, grid, spec, out).run(Findings(spec, None, measured or None))


def _check(
    a: Array, b: Array, c: Array | None, spec: Spec, out: Array | None
) -> tuple[tuple[int, ...], tuple[int, int]]:
    """Return the axes in front, and m and n, or say what does not fit."""
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
    return tuple(stack), (m, shape[-1])
