"""Results of NumPy and CuPy arrays, now: the cells over views of the matrices."""

from dataclasses import replace
from typing import Any

from ..kernels.family import namespace
from ..kernels.limits import TileLimits, Update, host_limits
from ..kernels.room import empty
from ..plan.explanation import warn_of_native
from ..problem.problem import Problem
from ..tiles import tasks
from ..tiles.blocks import cast
from ..tiles.cells import Operand, as_operand, compute_cell, mirror_tile
from ..tiles.grid import offsets, split_evenly
from ..tiles.look.estimate import Known, settle_in_memory
from ..tiles.look.in_memory import Looked, look
from ..tiles.spec import Spec, is_straight, load_engine
from ..typing import Array, Side

Slices = list[slice]


def compute(problem: Problem) -> Any:
    """Compute the result of a problem whose matrices are arrays in memory."""
    found = _compute_words(problem)
    if problem.out is not None and found is not problem.out:
        problem.out[...] = found
        return problem.out
    return tuple(found) if problem.spec.words == 2 else found


def _compute_words(problem: Problem) -> Array:
    dtype, spec, (m, n, _) = problem.dtype, problem.spec, problem.shape
    c = None if problem.c is None else cast(problem.c, dtype)
    if spec.empty:
        if c is None:
            return namespace(problem.a).zeros(spec.tile_shape(m, n), dtype)
        return compute_cell([], spec, spec.routine.triangle, None, c)
    a = as_tiles(problem.a, "left", spec)
    b = a if spec.twins else as_tiles(problem.b, "right", spec)
    if spec.native or spec.exact:
        return _compute(a, b, c, problem, None)
    looked = None
    if spec.equilibrate or spec.grade:
        looked = look(a, b, spec)
        a, b = looked.a, looked.b
    if looked is not None and spec.grade:
        spec = settle_in_memory(spec, looked.left, looked.right)
        problem = replace(problem, spec=spec)
        if spec.native:
            warn_of_native()
    if not spec.native and spec.words == 1:
        at_once = _limit_tiles(problem).at_once
        if at_once is not None:
            out = _contiguous(problem.out)
            return tasks.multiply_at_once(at_once, a, b, spec, c, out)
    return _compute(a, b, c, problem, looked or look(a, b, spec))


def as_tiles(x: Array, side: Side, spec: Spec) -> Array:
    """Return a matrix whose views are tiles: integers that stay are widened later."""
    return x if spec.stored else cast(x, spec.operand_dtype)


def _compute(
    a: Array,
    b: Array,
    c: Array | None,
    problem: Problem,
    looked: Looked | None,
) -> Array:
    spec, routine = problem.spec, problem.spec.routine
    limits = _limit_tiles(problem)
    rows, columns, steps = (
        cut(size, largest)
        for size, largest in zip(
            problem.shape, (limits.mb, limits.nb, limits.kb), strict=True
        )
    )
    alone = len(rows) == len(columns) == 1
    # Of one tile nothing is encoded twice, but for the right side that is made of the
    # left one: planes go before the tile is decoded.
    kept = 0 if alone and not spec.twins else limits.cache_bytes
    if kept != spec.cache_bytes:
        spec = replace(spec, cache_bytes=kept)
    # The views live as long as these lists: so do their encoded tiles in the cache.
    left = _view_operands(a, "left", rows, steps, spec, looked and looked.left)
    right = left
    if not spec.twins:
        right = _view_operands(
            b, "right", columns, steps, spec, looked and looked.right
        )
    if alone:
        whole = [(left[0], right[0])]
        out = _contiguous(problem.out)
        return compute_cell(whole, spec, routine.triangle, None, c, out)
    out = problem.out
    if out is None:
        out = empty(namespace(a), spec.tile_shape(*problem.shape[:2]), problem.dtype)
    if routine.triangle and spec.uplo != "full":
        out[...] = 0
    cells = routine.cells(len(rows), len(columns), spec.uplo)
    if not routine.triangle:
        # Flat tiles: those of one right operand after one another, in squares.
        flat = max(1, limits.nb // limits.mb)
        cells.sort(key=lambda cell: (cell[0] // flat, cell[1], cell[0]))
    for i, j in cells:
        products = [(left[x], right[y]) for x, y in routine.pairs(i, j)]
        c_tile = None if c is None else c[rows[i], columns[j]]
        diagonal = routine.triangle and i == j
        place = out[..., rows[i], columns[j]]
        given = _contiguous(place)
        tile = compute_cell(products, spec, diagonal, None, c_tile, given)
        if tile is not given:
            place[...] = tile
        if len(columns) == 1:
            # Of a product nothing needs these rows again, nor their planes.
            products.clear()
            left[i] = Operand((), None)
        if routine.triangle and spec.uplo == "full" and i != j:
            out[..., rows[j], columns[i]] = mirror_tile(tile, spec)
    return out


def _contiguous(out: Any) -> Any:
    """Return out if an engine can write to it as it lies, or None."""
    return None if out is None or not out.flags.c_contiguous else out


def _limit_tiles(problem: Problem) -> TileLimits:
    """Choose the largest tiles; a native product is one."""
    spec, shape = problem.spec, problem.shape
    update = None
    if spec.routine.triangle:
        update = Update(spec.halves, spec.routine.sums)
    elif spec.native:
        return TileLimits(*shape, cache_bytes=0)
    if spec.native:
        return host_limits(shape, update)
    return load_engine(spec).tile_limits(spec.system, shape, update)


def cut(size: int, largest: int) -> Slices:
    """Cut a dimension into even pieces."""
    if size <= largest:
        return [slice(0, size)]
    return [slice(*r) for r in offsets(split_evenly(size, largest))]


def _view_operands(
    x: Array,
    side: Side,
    rows: Slices,
    steps: Slices,
    spec: Spec,
    known: Known | None,
) -> list[Operand]:
    """View the tiles of op(A), or of op(B)^T, by rows, with their exponents."""
    straight = is_straight(side, spec.op(side))
    exponents = None
    if known is not None and not spec.native:
        exponents = tasks.choose_exponents(*known.measured, spec)
    return [
        as_operand(
            [x[(i, step) if straight else (step, i)] for step in steps],
            None if exponents is None else exponents[i],
            side,
            spec,
        )
        for i in rows
    ]
