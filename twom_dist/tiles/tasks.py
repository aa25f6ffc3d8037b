"""One tile of C: rows of tiles are encoded, multiplied and decoded."""

import sys
from collections.abc import Callable, Hashable
from functools import partial

import numpy as np

from ..kernels.family import convert, family_of
from ..kernels.limits import FusedGemm, FusedProduct
from ..kernels.protocol import Encoded, Fill
from ..kernels.statistics import RowStatistics
from ..moduli import scaling_rule
from ..typing import Array, Uplo
from .accumulator import Accumulator
from .blocks import unlike_chunks
from .cache import encoded_tiles
from .rows import Row, Stream, share_tiles
from .spec import Spec, is_straight, load_engine, transposes


def _accumulator(values: Array, fill: Fill | None = None) -> Accumulator:
    """Make an accumulator, on a device one that distributed sends as device arrays."""
    if family_of(values) == "cupy" and "distributed" in sys.modules:
        from ..workers.transport.device_accumulator import DeviceAccumulator

        return DeviceAccumulator(values, fill)
    return Accumulator(values, fill)


def on_worker() -> bool:
    """Tell whether this runs on a worker whose process has no client.

    Nobody refills its blocks, as a user may those of an in-process worker.
    """
    worker, client = (sys.modules.get(f"distributed.{t}") for t in ("worker", "client"))
    if worker is None or not hasattr(worker.thread_state, "execution_state"):
        return False
    return client is not None and not client.Client._instances


def choose_exponents(spec: Spec, measured: RowStatistics) -> Array | None:
    """Choose a power of two for each row; None if the product became native."""
    if spec.native:
        return None
    engine = load_engine(spec)
    # What a job has analysed before lies on the host.
    largest = convert(measured.largest, engine.family)
    rule = scaling_rule(spec.system, spec.k)
    assert rule is not None
    squares = convert(measured.squares, engine.family)
    return engine.choose_exponents(largest, squares, rule)


def encode_tile(row: Row, step: int, exponents: Array, spec: Spec) -> Encoded:
    """Encode a tile, or find it in this process's cache.

    If B is A, a right operand's planes are those of the left one in another order.
    """
    engine, side = load_engine(spec), row.side
    if side == "right" and spec.twin_order is not None:
        left = encode_tile(Row("left", row.tiles), step, exponents, spec)
        return left.reorder(spec.twin_order)
    block, op = row.tiles[step], spec.op(side)

    def encode() -> Encoded:
        encoded = engine.encode(
            row.view_widened(step, spec),
            exponents,
            spec.system,
            conjugate=op == "C",
            shifts=row.shifts_of(step, spec),
        )
        # Another thread may take it from the cache on a stream of its own.
        return engine.publish(encoded) if spec.lazy else encoded

    if spec.cache_bytes == 0:
        return encode()
    # Exponents on a device join the key by identity, since reading their values would
    # wait for the device. Those of integers are always 0.
    on_host = spec.exact or family_of(exponents) == "numpy"
    e = None if row.shifts is None else row.shifts[step]
    key = (
        is_straight(side, op),
        op == "C",
        spec.moduli,
        spec.engine,
        _mark(row, step, spec),
        exponents.tobytes() if on_host and not spec.exact else None,
        None if e is None else e.tobytes(),
        # On a device the exponents are those of one diagonal.
        row.scaled_by(step) if on_host else None,
    )
    beside = None if on_host else exponents
    return encoded_tiles.get(block, key, encode, spec.cache_bytes, beside)


def _mark(row: Row, step: int, spec: Spec) -> int:
    """Tell the content of a tile from what users may fill the same block with."""
    if isinstance(row.tiles, Stream):
        return row.tiles.mark(step)
    if not spec.lazy or on_worker():
        return 0
    return load_engine(spec).fingerprint(row.tiles[step])


def multiply_panel(
    left: Row,
    right: Row,
    rows: Array,
    columns: Array,
    spec: Spec,
    before: Accumulator | None = None,
    *,
    hermitian: bool = False,
    triangle: Uplo = "full",
) -> Accumulator:
    """Multiply one panel along k and add it to what came before.

    `hermitian`: op(B)^T is conj(op(A)), which halves the products; `triangle`: of C.
    """
    if spec.native:
        return _multiply_native(left, right, spec, before)
    engine, right = load_engine(spec), share_tiles(left, right)
    values = None if before is None else before.values
    # Other tasks may read the old sums, and a task may run again. Those of earlier
    # steps of this panel are this task's own.
    old = None if left.steps.start else values
    fill = None if before is None else before.fill
    conjugate = spec.op_a == "C", spec.op_b == "C"
    size = rows.shape[-1], columns.shape[-1]
    # Rows of sums may be padded.
    if values is not None and not (
        values.shape[-2] == size[0] and values.shape[-1] >= size[1]
    ):
        raise unlike_chunks()
    for step in left.steps:
        # Kernels trust sizes that could not be checked while they were unknown.
        if size != tuple(x.view(step, spec).shape[-2] for x in (left, right)):
            raise unlike_chunks()
        x = encode_tile(left, step, rows, spec)
        if left.tiles is right.tiles and spec.twin_order is not None:
            y = x.reorder(spec.twin_order)
        else:
            y = encode_tile(right, step, columns, spec)
        values = engine.multiply(
            engine.retain(x),  # both are kept for their product
            engine.retain(y),
            spec.system,
            values,
            overwrite=values is not old,
            hermitian=hermitian,
            triangle=triangle,
        )
        del x, y  # their memory serves the next ones
        if spec.exact:
            continue
        found = engine.find_nonfinite(
            left.view(step, spec), right.view(step, spec), rows, columns, conjugate
        )
        fill = found if fill is None or found is None else fill.plus(found)
    assert values is not None
    return _accumulator(values, fill)


def add_accumulators(x: Accumulator, y: Accumulator, spec: Spec) -> Accumulator:
    """Add the sums of two parts along k, into new ones."""
    if spec.native:
        with np.errstate(invalid="ignore", over="ignore"):
            return _accumulator(x.values + y.values)
    values = load_engine(spec).add_residues(x.values, y.values, spec.system)
    fills = [t.fill for t in (x, y) if t.fill is not None]
    fill = fills[0].plus(fills[1]) if len(fills) == 2 else next(iter(fills), None)
    return _accumulator(values, fill)


def _multiply_native(
    left: Row, right: Row, spec: Spec, total: Accumulator | None
) -> Accumulator:
    for step in left.steps:
        x, y = left.view(step, spec), right.view(step, spec)
        x = np.conj(x) if spec.op_a == "C" else x
        y = np.conj(y) if spec.op_b == "C" else y
        if spec.stands_in:
            # Double precision holds all products of single precision.
            x, y = (t.astype(np.result_type(t.dtype, "d"), copy=False) for t in (x, y))
        with np.errstate(invalid="ignore", over="ignore"):
            product = np.matmul(x, y.swapaxes(-1, -2))
            if total is not None:
                if total.values.shape != product.shape:
                    raise unlike_chunks()
                product += total.values
        total = _accumulator(product)
    assert total is not None
    return total


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
    """Turn an accumulator into ``alpha op(A) op(B) + beta C``, or a triangle of it."""
    if spec.native:
        values, scalars = accumulator.values, (spec.alpha, beta)
        # Devices take both of one dtype.
        added = None if c is None else c.astype(values.dtype, copy=False)
        scale_and_add = load_engine(spec).scale_and_add
        found = scale_and_add(values, *scalars, added, values.dtype)
        with np.errstate(over="ignore"):
            return found.astype(spec.dtype, copy=False)
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
        components=spec.components,
        out=out,
    )
    if accumulator.fill is not None:
        # Rows and columns with a NaN or an Inf are encoded as 0: low parts are 0, too.
        numbers = out[0] if spec.components == 2 else out
        engine.apply_nonfinite(accumulator.fill, numbers, spec.alpha, beta, c)
    return out


def call_fused(
    multiply: FusedGemm,
    spec: Spec,
    alike: Hashable = None,
    stored: bool = True,
    integers: str = "",
) -> Callable[..., Array]:
    """Give a spec to what multiplies whole matrices; c, out and shifts remain.

    `stored`: whether A and B come as they are, or as rows; `alike`: see `FusedProduct`;
    `integers`: see `Problem`.
    """
    rule, routine = scaling_rule(spec.system, spec.k), spec.routine
    assert rule is not None
    product = FusedProduct(
        conjugate=(spec.op_a == "C", spec.op_b == "C"),
        system=spec.system,
        rule=rule,
        dtype=np.dtype(integers or spec.dtype),
        alpha=spec.alpha,
        beta=spec.beta,
        twin=spec.twin_order,
        uplo=spec.uplo if routine.triangle else None,
        hermitian=routine.hermitian,
        turned=transposes(spec) if stored else (False, False),
        alike=alike,
    )
    return partial(multiply, product)
