"""The stages of `program`: functions of a spec, rows of tiles and earlier results.

Arrays in memory and every dask scheduler share them. They never write to their inputs:
dask may hold these, send them or compute from them again.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from importlib import import_module
from itertools import chain
from operator import add
from typing import Any

import numpy as np

from ..kernels.family import convert, namespace
from ..moduli import norm_bits, scaling_rule
from ..typing import Array
from . import cells, tasks
from .accumulator import Accumulator
from .blocks import unlike_chunks
from .grid import Chunks
from .look import equilibration, estimate
from .look.estimate import Bounds, Measured, join
from .rows import Row, Steps, Stream
from .spec import Spec, load_engine

# Chosen rows of one operand, tile by tile, and measurements of all of its rows.
Sampled = tuple[Sequence[Array], Sequence[Measured]]


# --- what is known of rows ------------------------------------------------------------


def largest_exponents(spec: Spec, row: Row, before: Measured | None = None) -> Array:
    """Find the largest exponent of each row.

    `before`: measurements of the stored tiles, which hold if nothing is shifted.
    """
    if before is not None and row.shifts_of(0, spec) is None:
        return before.largest
    find = load_engine(spec).largest_exponents
    return combine_largest([find(*row.shifted(s, spec)) for s in row.steps])


def combine_largest(parts: Sequence[Array]) -> Array:
    """Combine the largest exponents of all tiles along k."""
    if len({x.shape for x in parts}) > 1:
        raise unlike_chunks()
    return reduce(np.maximum, parts)


def square_sums(
    spec: Spec, row: Row, largest: Array | None, before: Measured | None = None
) -> Measured:
    """Sum the squares of the rows, exactly.

    `largest`: exponents over all of k; None if the row is all of it.
    """
    if before is not None and row.shifts_of(0, spec) is None:
        return before._replace(columns=None)
    if largest is None:
        largest = largest_exponents(spec, row)
    bits, add_squares = norm_bits(spec.k), load_engine(spec).square_sums

    def sums(step: int) -> Any:
        # Nothing refers to a tile of a stream once its sums are known.
        x, e = row.shifted(step, spec)
        return add_squares(x, largest, bits, e)

    return Measured(largest, reduce(add, map(sums, row.steps)))


def scan_strip(spec: Spec, row: Row, largest: Array | None, before: None) -> Measured:
    """Sum as `square_sums` does, and find the extreme exponents of each column."""
    if largest is None:
        largest = largest_exponents(spec, row)
    engine, bits = load_engine(spec), norm_bits(spec.k)

    def scan(step: int) -> tuple[Array, Array]:
        x = row.view(step, spec)
        return engine.square_sums(x, largest, bits), engine.column_exponents(x, largest)

    sums, columns = zip(*map(scan, row.steps), strict=True)
    return Measured(largest, reduce(add, sums), join(columns))


def add_sums(parts: Sequence[Measured]) -> Measured:
    """Add the sums of all strips."""
    return Measured(parts[0].largest, reduce(add, [x.sums for x in parts]))


def combine_columns(parts: Sequence[Measured]) -> Measured:
    """Combine the exponents of columns of all strips above one another."""
    columns: list[Any] = [x.columns for x in parts]
    return parts[0]._replace(columns=reduce(np.maximum, columns))


def choose_shifts(
    spec: Spec, sizes: Chunks, left: Sequence[Measured], *right: Sequence[Measured]
) -> Sequence[Array] | None:
    """Choose the shifts of each tile along k; None where they gain nothing.

    `sizes`: those of the tiles; `right`: the same as `left` if B is A.
    """
    a, *b = (join([convert(x.columns, "numpy") for x in y]) for y in (left, *right))
    shifts = equilibration.choose_shifts(a, b[0] if b else a, spec.dtype)
    return None if shifts is None else np.split(shifts, np.cumsum(sizes)[:-1])


def take_shifts(spec: Spec, shifts: Sequence[Array] | None, step: int) -> Array | None:
    """Return the shifts of one tile along k."""
    return None if shifts is None else shifts[step]


# --- moduli ---------------------------------------------------------------------------


def choose_rows(spec: Spec, measured: Sequence[Measured]) -> list[Array]:
    """Choose the rows whose products are looked at, tile by tile."""
    return estimate.choose_rows(measured, spec)


def sample_rows(
    spec: Spec, row: Row, measured: Measured, chosen: Sequence[Array], index: int
) -> Sequence[Array]:
    """Take the magnitudes of the chosen rows, tile by tile: of a stream, later."""
    given = measured.largest, chosen[index], spec

    def take(step: int) -> Array:
        return estimate.sample_rows(row, step, *given)

    if not isinstance(row.tiles, Stream):
        return [*map(take, row.steps)]
    return Steps(row.tiles, take)


def bound_strips(
    spec: Spec, left: Sequence[Sequence[Array]], right: Sequence[Sequence[Array]]
) -> Bounds:
    """Bound ``|A| |B|`` from below, for one strip of all chosen rows."""
    if not isinstance(left[0], Steps):
        # At once: a device is waited for each time.
        wide = [[estimate.join(line) for line in side] for side in (left, right)]
        return estimate.bound_tiles(wide[0], wide[1], spec)
    steps = zip(zip(*left, strict=True), zip(*right, strict=True), strict=True)
    return estimate.add_bounds(estimate.bound_tiles(x, y, spec) for x, y in steps)


def settle(spec: Spec, bounds: Sequence[Bounds], left: Sampled, right: Sampled) -> Spec:
    """Choose the moduli, from the bounds of all strips."""
    squares = estimate.sample_sums(*left), estimate.sample_sums(*right)
    ratio = estimate.square_ratio(estimate.add_bounds(bounds), squares, spec.k)
    return estimate.choose_moduli(spec, ratio)


def cell_ratio(
    spec: Spec,
    left: Sequence[Sequence[Array]],
    right: Sequence[Sequence[Array]],
    *sides: tuple[int, Sequence[Array], Sequence[Measured]],
) -> float:
    """Find the largest ratio of norms to ``|A| |B|`` of the rows of one cell.

    `left`, `right`: magnitudes of the tiles of each strip.
    """
    squares = [
        estimate.sample_sums([chosen[index]], [measured[index]])
        for index, chosen, measured in sides
    ]

    def both() -> Iterator[tuple[Array, Array]]:
        return zip(*map(chain.from_iterable, (left, right)), strict=True)

    return estimate.cell_ratio(both, squares, spec)


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
    """Measure rows along all of k, and choose their exponents."""
    return choose_exponents(spec, square_sums(spec, row, None))


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
