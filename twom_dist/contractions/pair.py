"""The contraction of two operands: one gemm of stacks, an update, or the BLAS."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..api.routine import compute_call
from ..auto.choose import is_small
from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..problem.matrices import is_dask
from ..tiles.routine import ROUTINES
from ..typing import Op
from .arrays import reduce_operand, strides_of
from .layout import PairLayout, fuse, lay_out, make_lazy, make_zeros, split
from .native import (
    PRODUCT_KINDS,
    Native,
    contract_by_dask,
    is_native,
    multiply_entries,
    multiply_natively,
)
from .same_operand import Update, find_update
from .subscripts import Term, reduce_each


class Weights(NamedTuple):
    """Weights of the contracted axis."""

    # Returns the A that a routine takes, with its weights, of the matrix A.
    operand: Callable[[Any], Any]
    updates: Sequence[Update]  # those that a product with these weights may be


def contract_pair(
    a: Any,
    b: Any,
    terms: tuple[Term, Term],
    output: Term,
    choice: Choice,
    native: Native | None = None,
    weights: Weights | None = None,
) -> Any:
    """Sum the products of the entries of two operands.

    `native`: what computes the same by dask, if it is one of its functions. `weights`:
    of the contracted axis, where `is_weighed` allows any.
    """
    a, b, terms, layout = _reduce(a, b, terms, output)
    if not layout.inner:
        return multiply_entries(a, b, terms, output)
    x, y, lazy = a, b, is_dask(a)
    if lazy != is_dask(b):
        a, b = make_lazy(a, b, terms, layout)
        lazy = True
    small = weights is None and _is_surely_native(a, b, layout, choice)
    among = None if weights is None else weights.updates
    update = None if small else find_update(a, b, layout, choice, among)
    routine = update or "gemm"
    if small or (weights is None and is_native(a, b, routine, layout.shape, choice)):
        if lazy:
            return contract_by_dask(x, y, terms, output, native)
        return multiply_natively(a, b, layout)
    if lazy and 0 in (*layout.shape, *layout.split):
        return make_zeros(a, b, layout)
    a, b, chunks = fuse(a, b, layout)
    call = _make_call(a, b, layout, update, choice)
    if weights is not None:
        call = call._replace(A=weights.operand(call.A))
    return split(compute_call(call), layout, chunks)


def is_weighed(
    a: Any, b: Any, terms: tuple[Term, Term], output: Term, choice: Choice, letter: str
) -> bool:
    """Tell whether two operands are multiplied by gemm over one letter, and by int8."""
    a, b, _, layout = _reduce(a, b, terms, output)
    if layout.inner != (letter,):
        return False
    return not is_native(a, b, "gemm", layout.shape, choice)


def _reduce(
    a: Any, b: Any, terms: tuple[Term, Term], output: Term
) -> tuple[Any, Any, tuple[Term, Term], PairLayout]:
    """Sum what one operand alone has, and lay out the product."""
    first, second = reduce_each(terms, output, (a.shape, b.shape))
    a, b = reduce_operand(a, first), reduce_operand(b, second)
    shapes, strides = (a.shape, b.shape), (strides_of(a), strides_of(b))
    layout = lay_out(first.term, second.term, output, shapes, strides)
    return a, b, (first.term, second.term), layout


def _is_surely_native(a: Any, b: Any, layout: PairLayout, choice: Choice) -> bool:
    """Tell whether NumPy arrays are left to NumPy, whatever else is found out."""
    return (
        isinstance(a, np.ndarray)
        and a.dtype.char == b.dtype.char
        and a.dtype.char in PRODUCT_KINDS
        and choice.by_size
        and is_small(a.dtype, layout.shape)
    )


def _make_call(
    a: Any, b: Any, layout: PairLayout, update: Update | None, choice: Choice
) -> Call:
    left, right = layout.left.op, layout.right.op
    ops: tuple[Op, ...] = (left, right)
    matrices = [a, b]
    if update:
        # The right side is the left one transposed, or ^H of it.
        matrices, ops = [a], ("N",)
        if left == "T" and update == "syrk":
            ops = ("T",)
        elif left == "T" and right == "N":
            matrices, ops = [b], ("C",)
        elif left == "T":
            matrices = [a.swapaxes(-1, -2)]
    terms = Terms(ROUTINES[update or "gemm"], choice, ops)
    return Call(terms, *matrices)


# --- two matrices as they are ---------------------------------------------------------

# For NumPy matrices of one dtype layouts and letters would take a third of our Python's
# time for a small product.


def are_plain(x: Any, y: Any) -> bool:
    """Tell matrices that may be multiplied as they are."""
    return (
        type(x) is type(y) is np.ndarray
        and x.ndim == y.ndim == 2
        and x.shape[1] == y.shape[0]
        and x.dtype.char == y.dtype.char
        and x.dtype.char in PRODUCT_KINDS
    )


def differ_first(x: Any, y: Any) -> bool:
    """Tell matrices that cannot be x and x^T or x^H, by their first entries."""
    if 0 in (x.size, y.size):
        return False
    one, other = x.item(0), y.item(0)
    return bool(one != other and one != other.conjugate() and one == one)


def multiply_plain(x: Any, y: Any, choice: Choice) -> Any:
    """Multiply them natively, or as gemm does."""
    shape = (*x.shape, y.shape[1])
    small = choice.by_size and is_small(x.dtype, shape)
    if small or is_native(x, y, "gemm", shape, choice):
        return np.matmul(x, y)
    return compute_call(Call(Terms(ROUTINES["gemm"], choice), x, y))
