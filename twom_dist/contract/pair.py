"""The contraction of two operands, whatever function asked for it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..moduli.accuracy import NATIVE_METHOD, OLD_NATIVE_METHOD
from ..problem.matrices import is_dask
from ..run.planned import cost_of, with_cost
from .arrays import permute, reduce_operand, strides_of
from .fusing import align, fuse, fuse_blocks, split, split_blocks
from .layout import Layout, lay_out
from .letters import reduce_each
from .products import (
    PRODUCT_KINDS,
    is_faster_natively,
    is_surely_native,
    may_choose,
    multiply,
    multiply_natively,
    update,
)
from .subscripts import Term
from .twins import Twin, find_twin


def contract_pair(
    a: Any, b: Any, terms: tuple[Term, Term], output: Term, options: Mapping[str, Any]
) -> Any:
    """Sum the products of the entries of two operands."""
    first, second = reduce_each(terms, output, (a.shape, b.shape))
    a, b = reduce_operand(a, first), reduce_operand(b, second)
    layout = lay_out(
        first.term,
        second.term,
        output,
        (a.shape, b.shape),
        (strides_of(a), strides_of(b)),
    )
    if not layout.inner:
        return _multiply_entries(a, b, first.term, second.term, output)
    if is_dask(a) or is_dask(b):
        return _contract_lazily(a, b, layout, options)
    small = is_surely_native(a, b, layout, options)
    twin = None if small else _find_twin(a, b, layout, options)
    a, b = fuse(a, layout.left), fuse(b, layout.right)
    if small:
        return split(multiply_natively(a, b, layout), layout)
    if twin:
        return split(update(twin, a, b, layout, options), layout)
    return split(multiply(a, b, layout, options), layout)


def _contract_lazily(a: Any, b: Any, layout: Layout, options: Mapping[str, Any]) -> Any:
    twin = _find_twin(a, b, layout, options)
    dtype = np.result_type(a.dtype, b.dtype)
    if 0 in (*layout.shape, *layout.split):
        import dask.array as da

        like = a._meta if is_dask(a) else b._meta
        empty = da.zeros(layout.split, dtype=dtype, meta=like.astype(dtype))
        return permute(empty, layout.order)
    a, b = align(a, b, layout)
    a, left = fuse_blocks(a, layout.left, layout.inner)
    b, right = fuse_blocks(b, layout.right, layout.inner)
    if twin:
        found = update(twin, a, b, layout, options)
    else:
        found = multiply(a, b, layout, options)
    return with_cost(split_blocks(found, layout, left, right), cost_of(found))


def _find_twin(
    a: Any, b: Any, layout: Layout, options: Mapping[str, Any]
) -> Twin | None:
    """Name the update that the product is, if it is to be computed as one."""
    known = options.get("equilibrate") is not None
    if layout.mirror is None or known or a.dtype.char not in PRODUCT_KINDS:
        return None
    if is_dask(a) or is_dask(b):
        return find_twin(a, b, layout)
    if options.get("method") in (NATIVE_METHOD, OLD_NATIVE_METHOD):
        return None
    if not may_choose(options):
        return find_twin(a, b, layout)
    # All entries are compared only where that may spare int8 products.
    twins = [
        name
        for name in ("herk", "syrk")
        if not is_faster_natively(a, name, a.dtype, layout, options)
    ]
    found = find_twin(a, b, layout) if twins else None
    return found if found in twins else None


def _multiply_entries(a: Any, b: Any, left: Term, right: Term, output: Term) -> Any:
    """Multiply entries that no sum joins."""
    x, y = (
        permute(x, tuple(term.index(t) for t in output if t in term))[
            tuple(slice(None) if t in term else None for t in output)
        ]
        for x, term in ((a, left), (b, right))
    )
    return x * y
