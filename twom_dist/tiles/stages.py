"""The stages of `program` up to scaling; `cells` has the stages of the product.

Stages are functions of a spec, rows of tiles and earlier results, for arrays in memory
and for tasks. They never write to inputs, which dask may hold, send or use again.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ..kernels.family import convert, join
from ..kernels.statistics import Ask, RowStatistics
from ..moduli import norm_bits
from ..typing import Array
from .analysis import equilibration
from .blocks import unlike_chunks
from .grid import Chunks
from .rows import Row
from .spec import Spec, load_engine
from .tasks import choose_exponents as choose_exponents


def largest_exponents(
    spec: Spec, row: Row, before: RowStatistics | None = None
) -> Array:
    """Find the largest exponent of each row; `before` holds if nothing is shifted."""
    if before is not None and row.shifts_of(0, spec) is None:
        return before.largest
    found = _measure_tiles(spec, row, None, ())
    return combine_largest([x.largest for x in found])


def combine_largest(parts: Sequence[Array]) -> Array:
    """Combine the largest exponents of all tiles along k."""
    if len({x.shape for x in parts}) > 1:
        raise unlike_chunks()
    return reduce(np.maximum, parts)


def row_sums(
    spec: Spec,
    row: Row,
    largest: Sequence[Array] | None,
    before: RowStatistics | None = None,
) -> RowStatistics:
    """Sum the rows' squares, and what else chooses moduli, if these are open: exactly.

    `largest`: exponents of all strips; None if the row is all of k.
    """
    if before is not None and row.shifts_of(0, spec) is None:
        return before._replace(columns=None)
    asks = _BY_ENTRIES if spec.data_driven else _BY_MODULI
    return add_sums(spec, _measure_tiles(spec, row, largest, asks))


_BY_MODULI: tuple[Ask, ...] = ("squares",)
_BY_ENTRIES: tuple[Ask, ...] = ("squares", "totals", "octaves")


def _measure_tiles(
    spec: Spec, row: Row, largest: Sequence[Array] | None, asks: tuple[Ask, ...]
) -> list[RowStatistics]:
    """Measure the tiles of a row, one by one."""
    whole = None
    if largest is not None:
        whole = combine_largest(largest)
    elif asks and len(row.steps) > 1:
        whole = largest_exponents(spec, row)
    measure, bits = load_engine(spec).measure, norm_bits(spec.k)

    def one(step: int) -> RowStatistics:
        # Nothing refers to a tile of a stream once its sums are known.
        x, e = row.view_shifted(step, spec)
        return measure(x, bits, asks, largest=whole, shifts=e)

    return [*map(one, row.steps)]


def scan_strip(
    spec: Spec, row: Row, largest: Sequence[Array] | None, before: None
) -> RowStatistics:
    """Find the extreme exponents of each column, and what sums choose moduli."""
    asks: tuple[Ask, ...] = _BY_ENTRIES if spec.data_driven else ()
    found = _measure_tiles(spec, row, largest, (*asks, "columns"))
    columns = join([x.columns for x in found if x.columns is not None])
    return add_sums(spec, found)._replace(columns=columns)


def add_sums(spec: Spec, parts: Sequence[RowStatistics]) -> RowStatistics:
    """Add the sums of all strips."""

    def total(name: str) -> Any:
        own = [x for x in (getattr(part, name) for part in parts) if x is not None]
        return reduce(add, own) if own else None

    sums = {name: total(name) for name in ("squares", "totals", "octaves")}
    return RowStatistics(parts[0].largest, **sums)


def combine_columns(spec: Spec, parts: Sequence[RowStatistics]) -> RowStatistics:
    """Combine the exponents of columns of all strips above one another."""
    columns: list[Any] = [x.columns for x in parts]
    return parts[0]._replace(columns=reduce(np.maximum, columns))


def choose_shifts(
    spec: Spec,
    sizes: Chunks,
    left: Sequence[Sequence[RowStatistics]],
    *right: Sequence[Sequence[RowStatistics]],
) -> Sequence[Array] | None:
    """Choose the shifts of each tile along k; None where they gain nothing.

    `left`, `right`: of each strip what was measured of all rows, or is combined.
    """
    both = ([combine_columns(spec, x).columns for x in own] for own in (left, *right))
    a, *b = (join([convert(x, "numpy") for x in own]) for own in both)
    shifts = equilibration.choose_shifts(a, b[0] if b else a, spec.dtype)
    return None if shifts is None else np.split(shifts, np.cumsum(sizes)[:-1])


def scale_in_one(spec: Spec, row: Row) -> Array | None:
    """Measure rows along all of k, and choose their exponents."""
    return choose_exponents(spec, row_sums(spec, row, None))
