"""Stacks of NumPy and CuPy arrays: small matrices together, others one by one."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

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
from ..tiles.spec import Spec, load_engine, transposes
from ..tiles.tasks import call_fused
from ..typing import Array
from . import eager

# Rows, columns and k of matrices that are computed together: larger ones gain nothing,
# and tiles, strips and Winograd's algorithm work on one matrix.
LARGEST = 512
# k of integers, which nothing checks: 64 matrices of 16 x 8192 pairs take 14 ms
# together and 30 one by one (a core of Zen 5; not recorded). Sums of int8 products are
# below 2^27.
LARGEST_EXACT = 8192


def compute(problem: Problem) -> Any:
    """Compute the products of stacks: one array, or two with two components."""
    stack, spec, dtype = problem.stack, problem.spec, problem.dtype

    def spread(x: Array) -> Array:
        x = eager.as_tiles(x, spec)
        return _broadcast(gather(x) if spec.stored else x, stack)

    a = spread(problem.a)
    b = a if spec.same_operand else spread(problem.b)
    c = None if problem.c is None else _broadcast(cast(problem.c, dtype), stack)
    problem = replace(problem, a=a, b=b, c=c)
    if _are_small(problem.shape, spec):
        prepared, out = PreparedStack(problem), problem.out
        return prepared.run(a, b, c, out, lambda: problem, problem.scaling())
    shape = *stack, *problem.shape[:2]
    results = [empty(namespace(a), shape, dtype) for _ in range(spec.components)]
    if problem.out is not None:
        results = [problem.out]
    _compute_alone(problem, [*range(prod(stack))], results)
    return tuple(results) if spec.components == 2 else results[0]


def _compute_alone(problem: Problem, places: list[int], results: list[Array]) -> None:
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
        # Nothing checks them: few long rows are as small as a square.
        longest = min(LARGEST_EXACT, LARGEST**2 // max(1, m, n))
    return max(m, n) <= LARGEST and k <= longest


def _broadcast(x: Array, stack: tuple[int, ...]) -> Array:
    """View a stack with all the axes in front."""
    if x.shape[:-2] == stack:
        return x
    return namespace(x).broadcast_to(x, (*stack, *x.shape[-2:]))


class PreparedStack:
    """Products of stacks of small matrices, without the arrays.

    Each matrix takes its own moduli, if its entries decide; a few are left uncertain,
    and computed alone. What is `steady` serves all stacks like the first.
    """

    def __init__(self, problem: Problem) -> None:
        spec, self._stack, self.steady = problem.spec, problem.stack, False
        self._shape: tuple[int, ...] = problem.shape[:2]
        self.adds, self.used = spec.beta != 0, 0
        gemm_fused: FusedGemm | None = None
        self._run: Callable[..., None] | None = None
        # What computes all of a stack that no data decide about, by one call.
        self._whole: Callable[..., Array] | None = None
        self._together = 0
        if not spec.native:
            engine, system, sizes = load_engine(spec), spec.system, problem.shape
            self._run = partial(
                engine.run_stack, count=prod(self._stack), system=system, shape=sizes
            )
            limits = engine.tile_limits(system, sizes)
            kept = limits.cache_bytes if spec.same_operand else 0
            spec = replace(spec, cache_bytes=kept)
            self.steady, self._together = limits.steady, limits.together
            staged = spec.exact and not system.wraps
            if not (staged or (spec.routine.triangle and not spec.same_operand)):
                gemm_fused = limits.gemm_fused
        self._dtype, self._integers = spec.dtype, problem.integers if gemm_fused else ""
        if self._integers:
            self._dtype = self._integers
            self._shape += (2,) * (system.parts - 1)
        self._spec, self._gemm_fused, self._turned = spec, gemm_fused, transposes(spec)
        # Whether those of a stack that take the same moduli are found where they lie.
        self._in_place = gemm_fused is not None and load_engine(spec).takes_places
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
        found, sizes = cls(problem), (*problem.stack, *problem.shape)
        out, stack = problem.out, problem.stack
        one = all(x is None or x.shape[:-2] == stack for x in given)
        one = one and (out is None or out.flags.c_contiguous) and 0 not in sizes
        one = one and len(stack) == 1 and stack[0] <= found._together
        if one and found._gemm_fused is not None and not found._looks:
            found._whole = call_fused(found._gemm_fused, found._spec, found)
        return found if found.steady else None

    def run(
        self,
        a: Array,
        b: Array,
        c: Array | None,
        out: Array | None,
        pose: Callable[[], Problem],
        scaled: Callable[[Array], Array] | None = None,
    ) -> Array:
        """Compute the products of stacks like those that they were prepared for.

        `pose`: gives the problem of these, where some are computed one by one;
        `scaled`: makes of some matrices A, as stored, those that are multiplied.
        """
        if self._whole is not None:
            return self._whole(a, b, c=c, out=out)
        spec, count = self._spec, prod(self._stack)
        a, b = _broadcast(a, self._stack), _broadcast(b, self._stack)
        c = None if c is None else _broadcast(c, self._stack)
        found = out
        if found is None or not found.flags.c_contiguous:
            found = empty(namespace(a), (*self._stack, *self._shape), self._dtype)
        if found.size == 0 or (spec.empty and c is None):
            found[...] = 0
            return deliver(found, out)
        listed = found.reshape(count, *self._shape)
        x, y = a.reshape(count, *a.shape[-2:]), b.reshape(count, *b.shape[-2:])
        every = None if c is None else c.reshape(listed.shape)
        alone: list[int] = []

        def compute(own: slice) -> None:
            left = x[own] if scaled is None else scaled(x[own])
            added = None if every is None else every[own]
            for place in self._compute(left, y[own], added, listed[own]):
                alone.append(own.start + place)

        if self._run is None:
            compute(slice(0, count))
        else:
            self._run(compute)
        found = deliver(found, out)
        if alone:
            _compute_alone(replace(pose(), a=a, b=b, c=c), sorted(alone), [found])
        return found

    def _compute(self, a: Array, b: Array, c: Array | None, out: Array) -> list[int]:
        """Compute products; return the places of those whose moduli are uncertain."""
        if not self._looks:
            self._by(None)(a, b, c, out)
            return []
        if self._analyse is None:
            return [*range(len(a))]
        turn_a, turn_b = self._turned
        x = a.swapaxes(-1, -2) if turn_a else a
        y = b.swapaxes(-1, -2) if turn_b else b
        analysis = self._analyse((x, y)[: self._operands])
        known, found = analysis.statistics(), defaultdict[Any, list[int]](list)
        for place, system in enumerate(certain_systems(analysis, self._spec)):
            found[system].append(place)
        alone = found.pop(None, [])
        for system, places in found.items():
            if len(places) == len(a):
                self._by(system)(a, b, c, out, known)
                continue
            if self._in_place:
                self._by(system)(a, b, c, out, places=places)
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
            found = partial(_multiply, spec)
            if self._gemm_fused is not None and not spec.empty:
                fused = call_fused(self._gemm_fused, spec, integers=self._integers)

                def found(
                    a: Any, b: Any, c: Any, out: Any, known: Any = None, **places: Any
                ) -> None:
                    fused(a, b, c=c, out=out, known=known, **places)

            self._ways[system] = found
        return found


def _multiply(
    spec: Spec,
    a: Array,
    b: Array,
    c: Array | None,
    out: Array,
    known: Sequence[RowStatistics] | None = None,
) -> None:
    """Compute products of one residue system, or of the BLAS, stage by stage."""
    measured = known and {(s, 0): x for s, x in zip(spec.sides, known, strict=True)}
    grid = whole((*out.shape[1:], spec.k))
    rows = Row("left", [a]), Row("right", [b])
    eager.Eager(rows, c, grid, spec, out).run(Findings(spec, None, measured or None))
