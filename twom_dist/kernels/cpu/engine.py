"""The CPU engine: launches the Numba kernels over threads."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...moduli import NONFINITE_ROW, ZERO_ROW, ResidueSystem, ScalingRule
from ...typing import Array, Uplo
from .. import stack_summary
from ..at_hand import fetch, variant
from ..family import Family
from ..finish import scale_and_add
from ..limits import Shape, TileLimits, Update, host_limits
from ..nonfinite import apply_fill, find_fill
from .announce import announce_compilation
from .at_once import multiply_at_once
from .buffers import empty
from .decode.closing import close_tiles, mirror_tiles
from .decode.decode import decode_tile
from .decode.mirrors import fill_mirrors
from .encode.encode import encode_rows
from .encoded import GROUP, SIDES, CpuEncoded
from .fingerprint import fingerprint_words
from .layout import (
    as_parts,
    flat_parts,
    listed,
    read_only,
    straighten,
    tall,
    whole_rows,
)
from .look import norms, sums
from .look.magnitudes import error_sums, row_sums, sum_squares
from .look.octaves import count_octaves, multiply_octaves, octaves
from .look.survey import survey
from .look.weigh import weigh
from .products.multiply import may_take_quarters, multiply_planes, name_kernel
from .threads import ranges, run_each, run_pieces, run_task
from .tuning import (
    QUARTERED,
    SMALLEST_STRIP,
    STACK_BYTES,
    STRIP_BYTES,
    UPDATE_TILE,
)
from .units import has_vnni


class CpuEngine:
    """The contract on Numba's kernels; see `twom_dist.kernels.contract`."""

    name = "cpu"
    family: Family = "numpy"
    writes_parts = True
    waits = False
    weigh, survey = staticmethod(weigh), staticmethod(survey)
    fetch, variant = staticmethod(fetch), staticmethod(variant)
    row_sums = staticmethod(row_sums)
    error_sums = staticmethod(error_sums)
    summarise = staticmethod(stack_summary.summarise)
    largest_errors = staticmethod(partial(stack_summary.largest_errors, error_sums))
    octaves = staticmethod(octaves)
    count_octaves = staticmethod(count_octaves)
    multiply_octaves = staticmethod(multiply_octaves)
    find_fill = staticmethod(find_fill)
    apply_fill = staticmethod(apply_fill)
    scale_and_add = staticmethod(scale_and_add)

    def task(self) -> AbstractContextManager[None]:
        """Bound threads and kept memory to a task's share."""
        return run_task()

    def share(self, encoded: Any) -> Any:
        """Nothing runs on when a call has returned."""
        return encoded

    def keep(self, encoded: Any) -> Any:
        """Nothing runs on when a call has returned."""
        return encoded

    def tile_limits(
        self, system: ResidueSystem, shape: Shape, update: Update | None = None
    ) -> TileLimits:
        """Cut by the setting largest-tile, products into strips of rows besides.

        Of updates a diagonal tile costs half where half of the products follow from the
        others, and with VNNI, which multiplies one side of it.
        """
        limits, (m, n, k) = host_limits(shape, update), shape
        if update is not None and (update.halves or has_vnni()):
            limits = host_limits(shape, update, UPDATE_TILE)
        mb, nb, kb, cache_bytes = limits.mb, limits.nb, limits.kb, limits.cache_bytes
        if update is None:
            row_bytes = len(system.planes) * min(k, nb)
            row_bytes += system.num_products * min(n, nb)
            quarters = may_take_quarters((m, min(n, nb), min(k, kb)))
            strip = STRIP_BYTES * (QUARTERED if quarters else 1)
            mb = min(mb, max(SMALLEST_STRIP, strip // max(1, row_bytes)))
        two = update is not None and update.two
        # What computes a product of one tile.
        alone = not two and 0 not in shape and m <= mb and n <= nb and k <= kb
        at_once = partial(multiply_at_once, self) if alone else None
        return TileLimits(mb, nb, kb, cache_bytes, at_once, steady=True)

    def run_stack(
        self,
        compute: Callable[[slice], object],
        count: int,
        system: ResidueSystem,
        shape: Shape,
    ) -> None:
        """Cut so that planes and residues find the pages of those before."""
        m, n, k = shape
        nbytes = len(system.planes) * (m + n) * k + system.num_products * m * n
        run_pieces(compute, count, *(t // max(1, nbytes) for t in STACK_BYTES))

    def mirror_tile(
        self, tile: Array, *, conjugate: bool, out: Array | None = None
    ) -> Array:
        """Mirror bands of rows side by side."""
        *stack, m, n = tile.shape
        if out is None:
            out = np.empty((*stack, n, m), tile.dtype)
        if tile.size:
            row, entry = tile.strides[-2:]
            if stack or entry != tile.itemsize or row < n * entry or row % entry:
                tile = np.ascontiguousarray(tile)
            source, target = (as_parts(whole_rows(listed(x))) for x in (tile, out))
            mirror_tiles(read_only(source), target, (m, n), conjugate)
        return out

    def close_diagonal(self, tile: Array, *, conjugate: bool, uplo: Uplo) -> Array:
        """Close bands of rows side by side."""
        if tile.size:
            close_tiles(tile, conjugate, uplo)
        return tile

    def largest_exponents(self, x: Array, shifts: Array | None = None) -> Array:
        """Find the smallest e with |Re|, |Im| < 2^e for each row of x."""
        real = x.real.dtype.newbyteorder("=")
        integer = np.dtype(f"i{real.itemsize}")
        mask = integer.type(np.iinfo(integer).max)
        source, swapped = straighten(x)
        flat = flat_parts(source)
        rows, length = x.shape[:-1], flat.shape[-1]
        if not swapped:
            out = np.zeros(prod(rows), integer)
            columns = norms.column_factors(shifts, 1 + np.iscomplexobj(x), real)
            given = tall(flat), columns, mask
            run_each(
                lambda r: norms.largest_bits_inner(*given, *r, out),
                ranges(len(out), smallest=16, each=length // 6),
            )
            out = out.reshape(rows)
        else:
            lanes = np.zeros(prod(rows[:-1]) * length, integer)
            given = listed(flat), norms.column_factors(shifts, 1, real), mask
            run_each(
                lambda r: norms.largest_bits_outer(*given, *r, lanes),
                ranges(len(lanes), smallest=256, each=flat.shape[-2] // 6),
            )
            out = lanes.reshape(*rows, -1).max(axis=-1, initial=0)
        return norms.largest_exponents_from_bits(out, real)

    def column_exponents(self, x: Array, largest: Array) -> Array:
        """Find the extreme exponents of the parts of each column that are not 0."""
        real = x.real.dtype.newbyteorder("=")
        integer, info = np.dtype(f"i{real.itemsize}"), np.finfo(real)
        mask = integer.type(np.iinfo(integer).max)
        source, across = straighten(x.swapaxes(-1, -2))
        bits = listed(flat_parts(source).view(integer))
        largest = largest.reshape(len(bits), -1)
        kept = np.where(largest >= NONFINITE_ROW, integer.type(0), mask)
        # Exponents as numbers store them: 1 for the smallest normal ones.
        fields = np.maximum(np.asarray(largest, integer) - info.minexp, 1)
        if across:
            lanes, kernel, least = bits.shape[2], norms.extreme_bits_outer, 256
            within: tuple[int, ...] = ()
        else:
            lanes, kernel, least = bits.shape[1], norms.extreme_bits_inner, 16
            within = 0, bits.shape[2]
            parts = bits.shape[2] // max(1, kept.shape[1])
            kept, fields = (np.repeat(t, parts, axis=1) for t in (kept, fields))
        lanes *= len(bits)
        relative = np.full(lanes, norms.NO_EXPONENT, integer)
        high, low = np.zeros(lanes, integer), np.full(lanes, mask)
        given = bits, kept, fields, mask, integer.type(info.nmant)
        run_each(
            lambda r: kernel(*given, *r, *within, relative, high, low),
            ranges(lanes, smallest=least, each=2 * bits.size // max(1, lanes)),
        )
        columns = (*x.shape[:-2], x.shape[-1], -1) if lanes else (*x.shape[:-2], 0, 1)
        relative, high = (
            t.reshape(columns).max(axis=-1, initial=norms.NO_EXPONENT)
            for t in (relative, high)
        )
        low = low.reshape(columns).min(axis=-1, initial=mask)
        some = low != mask
        highest, lowest = (
            norms.largest_exponents_from_bits(t, real)
            for t in (np.maximum(high, 0), np.where(some, low + 1, 0))
        )
        found = np.stack((relative.astype(np.int32), highest, -lowest), axis=-2)
        return np.where(some[..., np.newaxis, :], found, np.int32(ZERO_ROW))

    def square_sums(
        self, x: Array, largest: Array, norm_bits: int, shifts: Array | None = None
    ) -> Array:
        """Sum ceil(|t| 2^(norm_bits - e))^2 over the parts of each row."""
        sentinel = norms.is_sentinel(largest)
        shift = np.where(sentinel, NONFINITE_ROW, norm_bits - largest)
        out = sum_squares(x, norms.power_factors(shift), shifts)
        out[sentinel] = 0
        return out

    def choose_exponents(self, largest: Array, sums: Array, rule: ScalingRule) -> Array:
        """Apply the rule to each row."""
        return norms.choose_exponents(largest, sums, rule)

    def fingerprint(self, x: Array) -> int:
        """Sum mixed words, each weighted by its place."""
        source, _ = straighten(x)
        content = source.reshape(-1).view(np.uint8)
        if content.size % 4:
            content = np.append(content, np.zeros(-content.size % 4, np.uint8))
        return int(fingerprint_words(read_only(content.view(np.uint32))))

    def encode(
        self,
        x: Array,
        exponents: Array,
        system: ResidueSystem,
        *,
        conjugate: bool = False,
        shifts: Array | None = None,
    ) -> CpuEncoded:
        """Quantise and write the planes in the layout of the side."""
        rows = x, exponents.reshape(-1), conjugate, shifts, None
        return encode_rows([rows], system)[0]

    def reorder(self, encoded: CpuEncoded, planes: tuple[int, ...]) -> CpuEncoded:
        """Take the planes in another order; the memory is the same."""
        order = tuple(encoded.order[plane] for plane in planes)
        return replace(encoded, order=order)

    def multiply(
        self,
        left: CpuEncoded,
        right: CpuEncoded,
        system: ResidueSystem,
        before: Array | None = None,
        *,
        overwrite: bool = False,
        hermitian: bool = False,
        triangle: Uplo = "full",
    ) -> Array:
        """Multiply and reduce; rows of residues are padded to whole groups."""
        m, n, k = left.rows, right.rows, left.k
        shape = system.num_products, *left.stack, m, -(-n // GROUP) * GROUP
        if 0 in (m, n, k) or 0 in left.stack:
            return np.zeros(shape, np.int8) if before is None else before
        shape = shape if before is None else before.shape
        residues: Array = before if overwrite else empty(shape, np.int8)
        shape = len(residues), prod(left.stack), *residues.shape[-2:]
        every = residues.reshape(shape)
        old = None if before is None else read_only(before).reshape(shape)
        multiply_planes(left, right, system, every, old, hermitian, triangle)
        if hermitian:
            fill_mirrors(system, every, SIDES[triangle])
        return residues

    def add_residues(self, x: Array, y: Array, system: ResidueSystem) -> Array:
        """Add bytes, 64 at a time."""
        return sums.add_residues(x, y, system)

    def decode(
        self,
        residues: Array,
        rows: Array,
        columns: Array,
        system: ResidueSystem,
        dtype: Any,
        *,
        alpha: complex = 1,
        beta: complex = 0,
        c: Array | None = None,
        triangle: Uplo = "full",
        words: int = 1,
        out: Array | None = None,
    ) -> Array:
        """Reconstruct rows of the tile side by side."""
        shape = *rows.shape, columns.shape[-1]
        if out is None:
            out = np.empty(shape if words == 1 else (words, *shape), dtype)
        if out.size:
            both = np.concatenate((rows.reshape(-1), columns.reshape(-1)))
            e, _ = norms.finite_exponents(both)
            finite = e[: rows.size], e[rows.size :]
            given = residues, *finite, system, alpha, beta, c, SIDES[triangle], words
            decode_tile(*given, out)
        return out


def make_engine() -> CpuEngine:
    """Make the engine, once its int8 product has passed the check."""
    announce_compilation()
    name_kernel()
    return CpuEngine()
