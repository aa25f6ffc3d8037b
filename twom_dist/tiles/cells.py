"""The cells of a routine: one or two products of rows of tiles, and an epilogue.

gemm, herk, syrk: ``C_ij = alpha X_i Y_j``, where ``Y = op(A)^H`` (or ^T) for updates.
her2k, syr2k: ``C = S + S^H`` (or ^T) with ``S = alpha op(A) op(B)``, so that a cell (i,
j) takes S_ij and S_ji. Each row of A and of B has its own scaling, because the common
scaling of [1]_ loses accuracy if A and B differ in size.

References
----------
.. [1] P. Caday, "The 2M Multiplication Algorithm for Complex Matrices", section 5.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ..kernels.double_double import add_pairs
from ..kernels.family import namespace
from ..kernels.statistics import RowStatistics
from ..typing import Array, Uplo
from . import tasks
from .accumulator import Accumulator, SweepStep, SweepSums
from .blocks import unlike_chunks
from .integers import no_exponents
from .rows import Row, share_streams
from .spec import Spec, load_engine


class Operand(NamedTuple):
    """One row of tiles of op(A), or of op(B)^T, and the exponents of its rows."""

    row: Row
    exponents: Array | None


Product = tuple[Operand, Operand]  # rows of both sides, as `Routine.pairs` lists them


def multiply_panel(
    spec: Spec,
    diagonal: bool,
    before: Sequence[Accumulator] | None,
    *operands: Any,
    triangle: Uplo = "full",
) -> tuple[Accumulator, ...]:
    """Multiply one panel of a cell, or some steps of it, and add it to those before.

    `diagonal`: whether the diagonal of an update's result runs through the cell;
    `operands`: rows of op(A) and of op(B)^T in turn, each followed by its exponents.
    """
    return _multiply(_as_products(operands, spec), spec, diagonal, before, triangle)


def multiply_sweep(
    spec: Spec,
    step: SweepStep,
    before: Any,
    c: Any,
    *operands: Any,
) -> SweepSums:
    """Multiply one panel of all cells of a sweep, and decode them after the last one.

    `operands`: rows, each before its exponents; `c`: tiles of C, if cells are decoded.
    All cells take one tile along k after the other, each of which is encoded, and made
    if rows are made here, once.
    """
    # What the first step takes is of the worker's sweep before, which it waits for.
    sums: SweepSums = before if step.done else [(None, 0)] * len(step.cells)
    if spec.data_driven:
        return sums  # the check goes on
    every = _choose_exponents(spec, operands)
    rows = share_streams(every[::2])
    given = {n: step.operands(spec, cell, every) for n, cell in step.cells.items()}
    last = {id(x.tiles): n for n, own in given.items() for x in own[::2]}
    alone, begun = c is not None and not step.done, dict[int, Any]()
    for steps in (each := rows[0].steps_at_once(len(given))):
        for row in rows:
            row.steps = steps
        for n, (i, j) in step.cells.items():
            if sums[n][1] > step.done:
                continue
            own, diagonal = begun.pop(n, sums[n][0]), spec.routine.triangle and i == j
            # Another task may have run on another device, as in `finish_cell`.
            part = _wanted_triangle(spec, diagonal) if alone else "full"
            own = multiply_panel(spec, diagonal, own, *given[n], triangle=part)
            ends = steps is each[-1]
            if ends and c is not None:
                scales = _list_scales(_as_products(given[n], spec))
                own = decode_cell(own, scales, spec, diagonal, c[n], None)
            if ends:
                sums[n] = own, step.done + 1
            else:
                begun[n] = own
            for row in given[n][::2]:
                if last[id(row.tiles)] == n:
                    row.drop()
    return sums


def multiply_second(
    spec: Spec, step: SweepStep, sums: SweepSums, c: None, *operands: Any
) -> SweepSums:
    """Multiply the second panel, and first the first one, unless that is done.

    `operands`: those of both panels.
    """
    half = len(operands) // 2
    if not all(done for _, done in sums):
        first = replace(step, done=0)
        sums = multiply_sweep(spec, first, None, c, *operands[:half])
    return multiply_sweep(spec, step, sums, c, *operands[half:])


def _choose_exponents(spec: Spec, given: Sequence[Any]) -> list[Any]:
    """Choose the exponents of rows of which there is what was measured instead."""
    choose, stats = tasks.choose_exponents, RowStatistics
    return [choose(spec, x) if isinstance(x, stats) else x for x in given]


def take_tile(spec: Spec, sums: SweepSums, n: int) -> Array:
    """Take the tile of a cell out of those of its sweep."""
    tile: Array = sums[n][0]
    return tile


def finish_in_sweep(
    spec: Spec, step: SweepStep, sums: SweepSums, c: Array | None, *operands: Any
) -> Array:
    """Multiply the last panel of one cell of a sweep, and decode it: a tile of C."""
    (n,) = step.cells
    return take_tile(spec, multiply_sweep(spec, step, sums, {n: c}, *operands), n)


def take_cells(spec: Spec, sums: SweepSums, own: slice) -> SweepSums:
    """Take the sums of some cells out of those of their sweep."""
    return sums[own]


def finish_cell(
    spec: Spec,
    diagonal: bool,
    sums: SweepSums | None,
    c: Array | None,
    *operands: Any,
    out: Array | None = None,
) -> Array:
    """Multiply the last (or only) panel of a cell and decode it: a tile of C.

    `c`: the tile of C where beta is not 0; `out`: where the tile may be written to.
    """
    products, before = _as_products(operands, spec), sums[0][0] if sums else None
    # Only a triangle is multiplied if no other task has added to the tile: that task
    # may run on another device, which derives products in its own way.
    triangle = _wanted_triangle(spec, diagonal) if before is None else "full"
    accumulators = _multiply(products, spec, diagonal, before, triangle)
    return decode_cell(accumulators, _list_scales(products), spec, diagonal, c, out)


def _list_scales(products: Sequence[Product]) -> list[tuple[Any, Any]]:
    return [(left.exponents, right.exponents) for left, right in products]


def add_parts(spec: Spec, *parts: tuple[SweepSums, int]) -> SweepSums:
    """Add the sums of parts along k of a cell, which has a place in each."""

    def add(x: Accumulator, y: Accumulator) -> Accumulator:
        return tasks.add_accumulators(x, y, spec)

    each = zip(*(sums[n][0] for sums, n in parts), strict=True)
    return [(tuple(reduce(add, own) for own in each), 0)]


def finish_sums(
    spec: Spec,
    diagonal: bool,
    sums: Sequence[tuple[SweepSums, int]],
    c: Array | None,
    shape: tuple[int, int],
    *scales: Array | None,
    out: Array | None = None,
) -> Array:
    """Add the sums of all of k, and decode by exponents of op(A) and op(B)^T."""
    total: Sequence[Accumulator] = add_parts(spec, *sums)[0][0]
    own = _choose_exponents(spec, scales)
    pairs = [*zip(own[::2], own[1::2], strict=True)]
    if spec.exact:
        zeros = namespace(total[0].values).zeros
        exponents = tuple(zeros(size, np.int32) for size in shape)
        pairs = [exponents[:: 1 - 2 * n] for n in range(len(pairs))]
    return decode_cell(total, pairs, spec, diagonal, c, out)


def add_alone(
    spec: Spec,
    diagonal: bool,
    shape: tuple[int, int],
    c: Array | None,
    out: Array | None = None,
) -> Array:
    """Return beta C, or zeros, where nothing is multiplied."""
    if c is None:
        return zero_tile(spec, shape)
    out = load_engine(spec).scale_and_add(None, 0, spec.beta, c, spec.dtype)
    return _close(out, spec) if diagonal else out


def mirror_tile(spec: Spec, tile: Array, out: Array | None = None) -> Array:
    """Conjugate-transpose (or transpose) a tile: one that is not computed."""
    engine, conjugate = load_engine(spec), spec.routine.hermitian
    if spec.components == 2:
        both = [engine.mirror_tile(x, conjugate=conjugate) for x in tile]
        return namespace(tile).stack(both)
    return engine.mirror_tile(tile, conjugate=conjugate, out=out)


def zero_tile(spec: Spec, shape: tuple[int, int], out: Array | None = None) -> Array:
    """Make a tile of the triangle that was not asked for, or of an empty product."""
    if out is not None:
        out[...] = 0
        return out
    family = import_module(load_engine(spec).family)
    return family.zeros(spec.tile_shape(*shape), spec.dtype)


def _as_products(given: Sequence[Any], spec: Spec) -> list[Product]:
    """Pair rows of both sides; `given` lists each row before its exponents."""
    operands = [*map(Operand, given[::2], given[1::2])]
    if spec.exact:
        # Integers are not scaled.
        rows = [x.row for x in operands]
        operands = [Operand(x, no_exponents(x.view(x.steps.start, spec))) for x in rows]
    return [*zip(operands[::2], operands[1::2], strict=True)]


def _multiply(
    products: Sequence[Product],
    spec: Spec,
    diagonal: bool,
    before: Sequence[Accumulator] | None = None,
    triangle: Uplo = "full",
) -> tuple[Accumulator, ...]:
    earlier = before or (None,) * len(products)
    return tuple(
        tasks.multiply_panel(
            *(left.row, right.row, left.exponents, right.exponents, spec, own),
            hermitian=diagonal and spec.hermitian_product,
            triangle=triangle,
        )
        for (left, right), own in zip(products, earlier, strict=True)
    )


def decode_cell(
    accumulators: Sequence[Accumulator],
    scales: Sequence[tuple[Any, Any]],
    spec: Spec,
    diagonal: bool,
    c: Array | None,
    out: Array | None,
) -> Array:
    """Decode a cell, add the mirror image of the other product and beta C.

    `scales`: exponents of the rows of op(A) and of op(B)^T, for each product.
    """
    _check_sizes(accumulators, scales, spec, diagonal, c)
    if not spec.routine.sums:
        # beta C is added before the one rounding.
        (own,), ((rows, columns),) = accumulators, scales
        beta, triangle = spec.beta, _wanted_triangle(spec, diagonal)
        out = tasks.decode_tile(own, rows, columns, spec, beta, c, triangle, out)
        return _close(out, spec) if diagonal else out
    engine, both = load_engine(spec), zip(accumulators, scales, strict=True)
    # Integers, and the sums of two, are exact in double precision.
    wide = spec
    if spec.exact:
        wide = replace(spec, dtype=np.result_type(spec.dtype, np.float64).str)
    decoded = [tasks.decode_tile(own, *exponents, wide) for own, exponents in both]
    # A diagonal cell has a single product.
    mirrored = mirror_tile(spec, decoded[-1])
    if spec.components == 2:
        out = add_pairs(decoded[0], mirrored)
    else:
        out = engine.scale_and_add(decoded[0], 1, 1, mirrored, wide.dtype)
        if wide.dtype != spec.dtype:
            out = out.astype(spec.dtype)
            out += 0  # what underflows becomes a positive zero, as everywhere
        if spec.beta != 0:
            out = engine.scale_and_add(out, 1, spec.beta, c, spec.dtype)
    return _close(out, spec) if diagonal else out


def _check_sizes(
    accumulators: Sequence[Accumulator],
    scales: Sequence[tuple[Any, Any]],
    spec: Spec,
    diagonal: bool,
    c: Array | None,
) -> None:
    """Raise unless tiles that meet here fit; unknown sizes are only known now."""
    # Residues may be padded, exponents are not; a native product has none.
    sizes = [
        tuple(x.values.shape[-2:]) if y[0] is None else (y[0].shape[-1], y[1].shape[-1])
        for x, y in zip(accumulators, scales, strict=True)
    ]
    fits = c is None or tuple(c.shape[-2:]) == sizes[0]
    if diagonal or spec.routine.sums:
        fits &= sizes[-1] == sizes[0][::-1]
    if not fits:
        raise unlike_chunks()


def _wanted_triangle(spec: Spec, diagonal: bool) -> Uplo:
    # The mirror image of a rank-2k update's product needs all of it.
    if not diagonal or spec.routine.sums:
        return "full"
    return "upper" if spec.uplo == "upper" else "lower"


def _close(tile: Array, spec: Spec) -> Array:
    """Mirror the computed triangle of a diagonal tile, or clear the other one."""
    engine, conjugate = load_engine(spec), spec.routine.hermitian
    for component in tile if spec.components == 2 else (tile,):
        engine.symmetrise_diagonal_tile(component, conjugate=conjugate, uplo=spec.uplo)
    return tile
