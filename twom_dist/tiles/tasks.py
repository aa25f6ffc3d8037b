"""The block tasks of a product: scale, multiply, decode one tile.

Plain functions of blocks, the same for eager products and for every dask scheduler.
Inputs are never written to: dask may hold them, send them or compute from them again.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from ..errors import KernelError
from ..kernels.contract import Encoded, Fill
from ..kernels.family import family_of, namespace
from ..moduli import bound_rule, scaling_rule
from ..typing import Array, Side, Uplo
from .cache import encoded_tiles
from .spec import ProductSpec, as_rows, is_conjugated, load_engine, native_rows


@dataclass(frozen=True)
class Accumulator:
    """A C tile between two panels: residues (or native sums) and non-finite fill."""

    values: Array
    fill: Fill | None

    def __sizeof__(self) -> int:
        return int(self.values.nbytes)


def check_block(block: Array, spec: ProductSpec) -> Array:
    """Refuse a block that is not what its collection says: kernels trust it."""
    dtype, family = np.dtype(spec.dtype), load_engine(spec).family
    plain = type(block).__name__ == "ndarray" and family_of(block) == family
    if not plain or block.dtype.newbyteorder("=") != dtype:
        kind = f"{type(block).__module__}.{type(block).__qualname__}"
        raise KernelError(
            f"a block is a {kind} of {getattr(block, 'dtype', '?')}, "
            f"its dask array says {family}.ndarray of {dtype}; give map_blocks or "
            "from_delayed the true dtype and meta, or convert the blocks"
        )
    if family == "cupy":
        current = namespace(block).cuda.Device().id
        if block.device.id != current:
            raise KernelError(
                f"a block lies on device {block.device.id} and the worker's current "
                f"device is {current}; give each worker one device"
            )
    return block


def check_inner(a: Array, b: Array, rows: Array, columns: Array) -> None:
    """Refuse tiles that do not fit each other: k, and the exponents' m and n."""
    if a.shape[1] != b.shape[1] or (len(a), len(b)) != (len(rows), len(columns)):
        raise KernelError(
            f"tiles of {a.shape[0]} x {a.shape[1]} and {b.shape[1]} x {b.shape[0]} do "
            "not fit together; the chunks of a dask array are not what it says"
        )


def largest_exponents(block: Array, side: Side, spec: ProductSpec) -> Array:
    """Largest exponent of each row of op(A), or column of op(B), in this tile."""
    rows = as_rows(check_block(block, spec), side, spec.op(side))
    return load_engine(spec).largest_exponents(rows)


def combine_largest(tiles: Sequence[Array]) -> Array:
    """Largest exponents over all tiles along k."""
    return reduce(np.maximum, tiles)


def square_sums(block: Array, largest: Array, side: Side, spec: ProductSpec) -> Array:
    """Exact square sums of the rows in this tile."""
    rows = as_rows(block, side, spec.op(side))
    rule = scaling_rule(spec.system, spec.k)
    assert rule is not None
    return load_engine(spec).square_sums(rows, largest, rule.norm_bits)


def choose_exponents(largest: Array, sums: Sequence[Array], spec: ProductSpec) -> Array:
    """Scaling exponents from the exact sums of all tiles along k."""
    rule = scaling_rule(spec.system, spec.k)
    assert rule is not None
    return load_engine(spec).choose_exponents(largest, reduce(add, sums), rule)


def scale_in_one(block: Array, side: Side, spec: ProductSpec) -> Array:
    """Both passes at once, for a tile that holds the whole of k."""
    largest = largest_exponents(block, side, spec)
    return choose_exponents(largest, [square_sums(block, largest, side, spec)], spec)


def bound_maxima(
    a_tiles: Sequence[Array],
    b_tiles: Sequence[Array],
    largest: tuple[Array, Array],
    spec: ProductSpec,
) -> tuple[Array, Array]:
    """Row and column maxima of the upper bounds of one C tile (accurate scaling)."""
    engine = load_engine(spec)

    def plane(tile: Array, e: Array, side: Side) -> Array:
        rows = as_rows(check_block(tile, spec), side, spec.op(side))
        return engine.magnitudes(rows, e, side=side)

    return engine.bound_maxima(
        (plane(a, largest[0], "left"), plane(b, largest[1], "right"))
        for a, b in zip(a_tiles, b_tiles, strict=True)
    )


def accurate_exponents(
    norm_exponents: Array, largest: Array, maxima: Sequence[Array], spec: ProductSpec
) -> Array:
    """Exponents from the bounds of C; from the norm in rows whose products all vanish.

    A magnitude rounded up at 2^(6-e) covers the rounding of a' for s >= 6 - e, which
    ``capacity >= k 91^2`` ensures.
    """
    bound = reduce(np.maximum, maxima)
    rule = bound_rule(spec.system, spec.k)
    shifted = load_engine(spec).choose_exponents(largest, np.maximum(bound, 1), rule)
    return np.where(bound > 0, shifted + 6, norm_exponents).astype(np.int32)


def on_worker() -> bool:
    """Whether this runs on a worker whose process has no client.

    Nobody refills its blocks in place, as a user may the arrays that an in-process
    worker was given.
    """
    worker, client = (sys.modules.get(f"distributed.{t}") for t in ("worker", "client"))
    if worker is None or not hasattr(worker.thread_state, "execution_state"):
        return False
    return client is not None and not client.Client._instances


def encode_tile(
    block: Array,
    exponents: Array,
    side: Side,
    spec: ProductSpec,
    *,
    twin: bool = False,
) -> Encoded:
    """Encode a tile, or find it in this process's cache.

    `twin`: the same tile is a left operand too, so that a right one need not be encoded
    again where its planes are those of the left one in another order.
    """
    engine, op = load_engine(spec), spec.op(side)
    order = _order_of_twin(spec) if twin and side == "right" else None
    if order is not None and engine.twins_are_free:
        return engine.as_right(encode_tile(block, exponents, "left", spec), order)

    def encode() -> Encoded:
        if order is not None:
            left = encode_tile(block, exponents, "left", spec)
            return engine.as_right(left, order)
        encoded = engine.encode(
            as_rows(block, side, op),
            exponents,
            spec.system,
            side=side,
            conjugate=is_conjugated(op),
        )
        if spec.lazy:
            # Another thread may take it from the cache on a stream of its own.
            engine.synchronize()
        return encoded

    if spec.cache_bytes == 0:
        return encode()
    # On a device they are told by identity: their values would have to be waited for.
    on_host = family_of(exponents) == "numpy"
    key = (
        side,
        op,
        spec.moduli,
        spec.engine,
        engine.fingerprint(block) if spec.lazy and not on_worker() else 0,
        exponents.tobytes() if on_host else None,
    )
    beside = None if on_host else exponents
    return encoded_tiles.get(block, key, encode, spec.cache_bytes, beside)


def _order_of_twin(spec: ProductSpec) -> tuple[int, ...] | None:
    """Plane of op(A) that is each plane of op(B)^T, where B is A."""
    if is_conjugated(spec.op_a) != is_conjugated(spec.op_b):
        return spec.system.conjugate_planes
    return tuple(range(len(spec.system.planes)))


def multiply_panel(
    a_tiles: Sequence[Array],
    b_tiles: Sequence[Array],
    rows: Array,
    columns: Array,
    spec: ProductSpec,
    before: Accumulator | None = None,
    *,
    hermitian: bool = False,
    twin: bool = False,
    triangle: Uplo = "full",
) -> Accumulator:
    """Multiply one panel along k and add it to what came before.

    `hermitian`: op(B)^T is the conjugate of op(A), which halves the products; `twin`:
    B is A, so that one encoding of a tile serves both sides; `triangle`: what
    `decode_tile` will be asked for.
    """
    if spec.native:
        return _multiply_native(a_tiles, b_tiles, spec, before)
    engine = load_engine(spec)
    # A copy: the accumulator belongs to dask once its task has ended.
    values = None if before is None else before.values.copy()
    fill = None if before is None else before.fill
    conjugate = is_conjugated(spec.op_a), is_conjugated(spec.op_b)
    for a, b in zip(a_tiles, b_tiles, strict=True):
        x = as_rows(check_block(a, spec), "left", spec.op_a)
        y = as_rows(check_block(b, spec), "right", spec.op_b)
        check_inner(x, y, rows, columns)
        values = engine.multiply(
            encode_tile(a, rows, "left", spec),
            encode_tile(b, columns, "right", spec, twin=twin),
            spec.system,
            into=values,
            hermitian=hermitian,
            triangle=triangle,
        )
        found = engine.find_fill(x, y, rows, columns, conjugate)
        fill = found if fill is None or found is None else fill.plus(found)
    assert values is not None
    return Accumulator(values, fill)


def _multiply_native(
    a_tiles: Sequence[Array],
    b_tiles: Sequence[Array],
    spec: ProductSpec,
    before: Accumulator | None,
) -> Accumulator:
    total = None if before is None else before.values
    for a, b in zip(a_tiles, b_tiles, strict=True):
        x = native_rows(a, "left", spec.op_a)
        y = native_rows(b, "right", spec.op_b)
        with np.errstate(invalid="ignore", over="ignore"):
            product = np.matmul(x, y.T)
            total = product if total is None else total + product
    assert total is not None
    return Accumulator(total, None)


def decode_tile(
    accumulator: Accumulator,
    rows: Array,
    columns: Array,
    spec: ProductSpec,
    c: Array | None = None,
    triangle: Uplo = "full",
) -> Array:
    """Turn an accumulator into ``alpha op(A) op(B) + beta C``, or a triangle of it."""
    if spec.native:
        values, scalars = accumulator.values, (spec.alpha, spec.beta)
        return load_engine(spec).scale_and_add(values, *scalars, c, spec.dtype)
    engine = load_engine(spec)
    out = engine.decode(
        accumulator.values,
        rows,
        columns,
        spec.system,
        np.dtype(spec.dtype),
        alpha=spec.alpha,
        beta=spec.beta,
        c=c,
        triangle=triangle,
    )
    if accumulator.fill is not None:
        engine.apply_fill(accumulator.fill, out, spec.alpha, spec.beta, c)
    return out


def product_tile(
    a_tiles: Sequence[Array],
    b_tiles: Sequence[Array],
    rows: Array,
    columns: Array,
    spec: ProductSpec,
    before: Accumulator | None = None,
    c: Array | None = None,
) -> Array:
    """Multiply the last (or only) panel and decode: one tile of C."""
    accumulator = multiply_panel(a_tiles, b_tiles, rows, columns, spec, before)
    return decode_tile(accumulator, rows, columns, spec, c)
