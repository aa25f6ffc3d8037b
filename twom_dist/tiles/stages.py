"""The stages of `program`: functions of a spec, rows of tiles and earlier results.

Arrays in memory and every dask scheduler share them. They never write to their inputs:
dask may hold these, send them or compute from them again.
"""

from collections.abc import Sequence
from functools import reduce
from importlib import import_module
from operator import add
from typing import Any

import numpy as np

from ..kernels.family import convert, namespace
from ..moduli import norm_bits, scaling_rule
from ..typing import Array
from . import cells, tasks
from .accumulator import Accumulator
from .look import equilibration, estimate
from .look.estimate import Bounds, Measured
from .rows import Row
from .spec import Spec, load_engine

# Chosen rows of one operand, tile by tile, and measurements of all of its rows.
Sampled = tuple[Sequence[Array], Sequence[Measured]]


# --- what is known of rows ------------------------------------------------------------


def largest_exponents(spec: Spec, row: Row, before: Measured | None = None) -> Array:
    """Find the largest exponent of each row in one tile.

    `before`: measurements of the stored tile, which hold if nothing is shifted.
    """
    shifts = row.shifts_of(0, spec)
    if before is not None and shifts is None:
        return before.largest
    return load_engine(spec).largest_exponents(row.view(0, spec), shifts)


def combine_largest(parts: Sequence[Array]) -> Array:
    """Combine the largest exponents of all tiles along k."""
    return reduce(np.maximum, parts)


def square_sums(
    spec: Spec, row: Row, largest: Array, before: Measured | None = None
) -> Measured:
    """Sum the squares of the rows in one tile, exactly."""
    shifts = row.shifts_of(0, spec)
    if before is not None and shifts is None:
        return before._replace(columns=None)
    given = row.view(0, spec), largest, norm_bits(spec.k), shifts
    return Measured(largest, load_engine(spec).square_sums(*given))


def scan_tile(spec: Spec, row: Row, largest: Array, before: None) -> Measured:
    """Sum as `square_sums` does, and find the extreme exponents of each column."""
    columns = load_engine(spec).column_exponents(row.view(0, spec), largest)
    return square_sums(spec, row, largest, before)._replace(columns=columns)


def add_sums(parts: Sequence[Measured]) -> Measured:
    """Add the sums of all tiles along k."""
    return Measured(parts[0].largest, reduce(add, [x.sums for x in parts]))


def combine_columns(parts: Sequence[Measured]) -> Measured:
    """Combine the exponents of columns of all tiles above one another."""
    columns: list[Any] = [x.columns for x in parts]
    return parts[0]._replace(columns=reduce(np.maximum, columns))


def choose_shifts(
    spec: Spec, left: Sequence[Measured], right: Sequence[Measured]
) -> Sequence[Array] | None:
    """Choose the shifts of each tile along k; None where they gain nothing."""
    columns = [[convert(x.columns, "numpy") for x in side] for side in (left, right)]
    a, b = (np.concatenate(side, axis=1) for side in columns)
    shifts = equilibration.choose_shifts(a, b, spec.dtype)
    if shifts is None:
        return None
    return np.split(shifts, np.cumsum([x.shape[1] for x in columns[0]])[:-1])


def take_shifts(spec: Spec, shifts: Sequence[Array] | None, step: int) -> Array | None:
    """Return the shifts of one tile along k."""
    return None if shifts is None else shifts[step]


# --- moduli ---------------------------------------------------------------------------


def choose_rows(spec: Spec, measured: Sequence[Measured]) -> list[Array]:
    """Choose the rows whose products are looked at, tile by tile."""
    return estimate.choose_rows(measured, spec)


def sample_rows(
    spec: Spec, row: Row, measured: Measured, chosen: Sequence[Array], index: int
) -> Array:
    """Take the magnitudes of the chosen rows in one tile."""
    return estimate.sample_rows(row, measured.largest, chosen[index], spec)


def bound_tiles(spec: Spec, left: Sequence[Array], right: Sequence[Array]) -> Bounds:
    """Bound ``|A| |B|`` from below, for one tile along k of all chosen rows."""
    return estimate.bound_tiles(left, right, spec)


def settle(spec: Spec, bounds: Sequence[Bounds], left: Sampled, right: Sampled) -> Spec:
    """Choose the moduli, from the bounds of all tiles along k."""
    squares = estimate.sample_sums(*left), estimate.sample_sums(*right)
    ratio = estimate.square_ratio(estimate.add_bounds(bounds), squares, spec.k)
    return estimate.choose_moduli(spec, ratio)


def cell_ratio(
    spec: Spec,
    left: Sequence[Array],
    right: Sequence[Array],
    *sides: tuple[int, Sequence[Array], Sequence[Measured]],
) -> float:
    """Find the largest ratio of norms to ``|A| |B|`` of the rows of one cell."""
    squares = [
        estimate.sample_sums([chosen[index]], [measured[index]])
        for index, chosen, measured in sides
    ]
    return estimate.cell_ratio(left, right, squares, spec)


def settle_by_cells(spec: Spec, ratios: Sequence[float]) -> Spec:
    """Choose the moduli, from the ratios of all cells."""
    return estimate.choose_moduli(spec, max(ratios, default=0.0))


# --- the product ----------------------------------------------------------------------


def choose_exponents(spec: Spec, measured: Measured) -> Array | None:
    """Choose a power of two for each row; None if the product became native."""
    if spec.native:
        return None
    rule = scaling_rule(spec.system, spec.k)
    assert rule is not None
    return load_engine(spec).choose_exponents(measured.largest, measured.sums, rule)


def scale_in_one(spec: Spec, row: Row) -> Array | None:
    """Measure the rows of a tile that holds all of k, and choose their exponents."""
    largest = largest_exponents(spec, row)
    return choose_exponents(spec, square_sums(spec, row, largest))


def multiply_panel(
    spec: Spec, diagonal: bool, before: Sequence[Accumulator] | None, *operands: Any
) -> tuple[Accumulator, ...]:
    """Multiply one panel of a cell and add it to those before.

    `operands`: rows of op(A) and of op(B)^T in turn, each followed by its exponents.
    """
    products = cells.as_products(operands, spec)
    return cells.multiply_cell(products, spec, diagonal, before)


def finish_cell(
    spec: Spec,
    diagonal: bool,
    before: Sequence[Accumulator] | None,
    c: Array | None,
    *operands: Any,
    out: Array | None = None,
) -> Array:
    """Multiply the last panel of a cell and decode it: a tile of C."""
    products = cells.as_products(operands, spec)
    return cells.compute_cell(products, spec, diagonal, before, c, out)


def add_parts(
    spec: Spec, first: Sequence[Accumulator], second: Sequence[Accumulator]
) -> tuple[Accumulator, ...]:
    """Add the sums of two parts along k."""
    both = zip(first, second, strict=True)
    return tuple(tasks.add_accumulators(x, y, spec) for x, y in both)


def finish_sums(
    spec: Spec,
    diagonal: bool,
    total: Sequence[Accumulator],
    c: Array | None,
    shape: tuple[int, int],
    *scales: Array | None,
    out: Array | None = None,
) -> Array:
    """Decode the sums of all of k: a tile of C.

    `scales`: exponents of rows of op(A) and of op(B)^T in turn.
    """
    pairs = [*zip(scales[::2], scales[1::2], strict=True)]
    if spec.exact:
        zeros = namespace(total[0].values).zeros
        exponents = tuple(zeros(size, np.int32) for size in shape)
        pairs = [exponents[:: 1 - 2 * n] for n in range(len(pairs))]
    return cells.finish(total, pairs, spec, diagonal, c, out)


def add_alone(
    spec: Spec,
    diagonal: bool,
    shape: tuple[int, int],
    c: Array | None,
    out: Array | None = None,
) -> Array:
    """Return beta C, or zeros, where nothing is multiplied."""
    return zero_tile(spec, shape) if c is None else cells.add_alone(spec, diagonal, c)


def mirror_tile(spec: Spec, tile: Array) -> Array:
    """Make a tile of the triangle that is not computed."""
    return cells.mirror_tile(tile, spec)


def zero_tile(spec: Spec, shape: tuple[int, int]) -> Array:
    """Make a tile of the triangle that was not asked for, or of an empty product."""
    family = import_module(load_engine(spec).family)
    return family.zeros(spec.tile_shape(*shape), spec.dtype)
