"""The block tasks of a product: scale, multiply, decode one tile.

Plain functions of blocks, the same for eager products and for every dask scheduler.
Inputs are never written to: dask may hold them, send them or compute from them again.
"""

import sys
from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from ..kernels.at_once import AtOnce
from ..kernels.family import family_of
from ..kernels.operands import Encoded, Fill
from ..kernels.room import copy
from ..moduli import norm_bits, scaling_rule
from ..typing import Array, Side, Uplo
from .accumulator import Accumulator
from .cache import encoded_tiles
from .integers import widen
from .spec import (
    Spec,
    as_rows,
    is_conjugated,
    is_straight,
    load_engine,
    native_rows,
)


def _accumulator(values: Array, fill: Fill | None) -> Accumulator:
    """Make one that distributed, if it is there, sends as it sends its arrays."""
    if family_of(values) == "cupy" and "distributed" in sys.modules:
        from .moving import DeviceAccumulator

        return DeviceAccumulator(values, fill)
    return Accumulator(values, fill)


def largest_exponents(block: Array, side: Side, spec: Spec) -> Array:
    """Largest exponent of each row of op(A), or column of op(B), in this tile."""
    rows = as_rows(block, side, spec.op(side))
    return load_engine(spec).largest_exponents(rows)


def combine_largest(tiles: Sequence[Array]) -> Array:
    """Largest exponents over all tiles along k."""
    return reduce(np.maximum, tiles)


def add_sums(tiles: Sequence[Array]) -> Array:
    """Sum over all tiles along k."""
    return reduce(add, tiles)


def square_sums(block: Array, largest: Array, side: Side, spec: Spec) -> Array:
    """Exact square sums of the rows in this tile."""
    rows = as_rows(block, side, spec.op(side))
    return load_engine(spec).square_sums(rows, largest, norm_bits(spec.k))


def choose_exponents(largest: Array, sums: Array, spec: Spec) -> Array:
    """Scaling exponents from the exact sums over all of k."""
    rule = scaling_rule(spec.system, spec.k)
    assert rule is not None
    return load_engine(spec).choose_exponents(largest, sums, rule)


def scale_in_one(block: Array, side: Side, spec: Spec) -> Array:
    """Both passes at once, for a tile that holds the whole of k."""
    largest = largest_exponents(block, side, spec)
    return choose_exponents(largest, square_sums(block, largest, side, spec), spec)


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
    spec: Spec,
) -> Encoded:
    """Encode a tile, or find it in this process's cache.

    Where B is A, a right operand is not encoded again: its planes are those of the left
    one in another order.
    """
    engine, op = load_engine(spec), spec.op(side)
    if side == "right" and spec.twin_order is not None:
        return engine.reorder(
            encode_tile(block, exponents, "left", spec), spec.twin_order
        )

    def encode() -> Encoded:
        encoded = engine.encode(
            as_rows(widen(block, spec.operand_dtype), side, op),
            exponents,
            spec.system,
            conjugate=is_conjugated(op),
        )
        if spec.lazy:
            # Another thread may take it from the cache on a stream of its own.
            engine.synchronize()
        return encoded

    if spec.cache_bytes == 0:
        return encode()
    # On a device they are told by identity: their values would have to be waited for.
    # Where nothing is scaled they tell nothing.
    on_host = spec.exact or family_of(exponents) == "numpy"
    key = (
        is_straight(side, op),
        is_conjugated(op),
        spec.moduli,
        spec.engine,
        engine.fingerprint(block) if spec.lazy and not on_worker() else 0,
        exponents.tobytes() if on_host and not spec.exact else None,
    )
    beside = None if on_host else exponents
    return encoded_tiles.get(block, key, encode, spec.cache_bytes, beside)


def multiply_panel(
    a_tiles: Sequence[Array],
    b_tiles: Sequence[Array],
    rows: Array,
    columns: Array,
    spec: Spec,
    before: Accumulator | None = None,
    *,
    hermitian: bool = False,
    triangle: Uplo = "full",
) -> Accumulator:
    """Multiply one panel along k and add it to what came before.

    `hermitian`: op(B)^T is the conjugate of op(A), which halves the products;
    `triangle`: what `decode_tile` will be asked for.
    """
    if spec.native:
        return _multiply_native(a_tiles, b_tiles, spec, before)
    engine = load_engine(spec)
    # A copy: the accumulator belongs to dask once its task has ended.
    values = None if before is None else copy(before.values)
    fill = None if before is None else before.fill
    conjugate = is_conjugated(spec.op_a), is_conjugated(spec.op_b)
    for a, b in zip(a_tiles, b_tiles, strict=True):
        values = engine.multiply(
            *_encode_pair(a, b, rows, columns, spec),
            spec.system,
            into=values,
            hermitian=hermitian,
            triangle=triangle,
        )
        if spec.exact:
            continue
        x, y = as_rows(a, "left", spec.op_a), as_rows(b, "right", spec.op_b)
        found = engine.find_fill(x, y, rows, columns, conjugate)
        fill = found if fill is None or found is None else fill.plus(found)
    assert values is not None
    return _accumulator(values, fill)


def _encode_pair(
    a: Array, b: Array, rows: Array, columns: Array, spec: Spec
) -> tuple[Encoded, Encoded]:
    """Encode or find both sides, and keep them for their product."""
    engine = load_engine(spec)
    left = encode_tile(a, rows, "left", spec)
    right = encode_tile(b, columns, "right", spec)
    # Not before: making a tile waits, and then nothing of before is kept.
    return engine.keep(left), engine.keep(right)


def _multiply_native(
    a_tiles: Sequence[Array],
    b_tiles: Sequence[Array],
    spec: Spec,
    before: Accumulator | None,
) -> Accumulator:
    total = None if before is None else before.values
    for a, b in zip(a_tiles, b_tiles, strict=True):
        x = native_rows(a, "left", spec.op_a)
        y = native_rows(b, "right", spec.op_b)
        with np.errstate(invalid="ignore", over="ignore"):
            product = np.matmul(x, y.swapaxes(-1, -2))
            total = product if total is None else total + product
    assert total is not None
    return _accumulator(total, None)


def decode_tile(
    accumulator: Accumulator,
    rows: Array,
    columns: Array,
    spec: Spec,
    beta: complex = 0,
    c: Array | None = None,
    triangle: Uplo = "full",
    out: Array | None = None,
) -> Array:
    """Turn an accumulator into ``alpha op(A) op(B) + beta C``, or a triangle of it.

    `out`: where it may be written to.
    """
    if spec.native:
        values, scalars = accumulator.values, (spec.alpha, beta)
        return load_engine(spec).scale_and_add(values, *scalars, c, spec.dtype)
    engine = load_engine(spec)
    out = engine.decode(
        accumulator.values,
        rows,
        columns,
        spec.system,
        np.dtype(spec.dtype),
        alpha=spec.alpha,
        beta=beta,
        c=c,
        triangle=triangle,
        words=spec.words,
        out=out,
    )
    if accumulator.fill is not None:
        # Rows and columns with a NaN or an Inf are encoded as 0, and so are low words.
        numbers = out[0] if spec.words == 2 else out
        engine.apply_fill(accumulator.fill, numbers, spec.alpha, beta, c)
    return out


def multiply_at_once(
    multiply: AtOnce,
    a: Array,
    b: Array,
    spec: Spec,
    c: Array | None,
    out: Array | None,
) -> Array:
    """Compute a product of whole matrices, whose moduli are known, by one call."""
    rule, routine = scaling_rule(spec.system, spec.k), spec.routine
    assert rule is not None
    return multiply(
        as_rows(a, "left", spec.op_a),
        as_rows(b, "right", spec.op_b),
        (is_conjugated(spec.op_a), is_conjugated(spec.op_b)),
        spec.system,
        rule,
        np.dtype(spec.dtype),
        alpha=spec.alpha,
        beta=spec.beta,
        c=c,
        twin=spec.twin_order,
        uplo=spec.uplo if routine.triangle else None,
        hermitian=routine.hermitian,
        out=out,
    )
