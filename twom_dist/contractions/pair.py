"""The contraction of two operands: one gemm of stacks, an update, or the BLAS."""

from collections.abc import Callable
from string import ascii_letters
from typing import Any

import numpy as np

from ..api.routine import compute_call
from ..auto.choose import is_small
from ..kernels.family import namespace
from ..kernels.limits import Shape
from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..problem.matrices import is_dask
from ..tiles.diagonal import Scaled
from ..tiles.routine import ROUTINES
from ..typing import Op
from .arrays import (
    PRODUCT_KINDS,
    dtype_of,
    engine_for,
    permute,
    reduce_operand,
    strides_of,
)
from .layout import PairLayout, fuse, lay_out, make_lazy, make_zeros, split
from .same_operand import UPDATES, Update, find_update
from .subscripts import Term, reduce_each

Native = Callable[[], Any]  # what computes a contraction natively
TermPair = tuple[Term, Term]


def contract_pair(
    a: Any,
    b: Any,
    terms: TermPair,
    output: Term,
    choice: Choice,
    native: Native | None = None,
    weights: Any = None,
) -> Any:
    """Sum the products of the entries of two operands.

    `native`: what computes the same by dask, if it is one of its functions. `weights`:
    a vector that scales the contracted axis, where `is_weighed` allows any.
    """
    a, b, terms, layout = _reduce(a, b, terms, output)
    if not layout.inner:
        return multiply_entries(a, b, terms, output)
    x, y, lazy = a, b, is_dask(a)
    if lazy != is_dask(b):
        a, b = make_lazy(a, b, terms, layout)
        lazy = True
    small, among = weights is None and _is_surely_native(a, b, layout, choice), None
    if weights is not None:
        # A w A^H is Hermitian for real weights alone.
        among = UPDATES[1:] if weights.dtype.kind == "c" else UPDATES
    update = None if small else find_update(a, b, layout, choice, among)
    routine = update or "gemm"
    if small or (weights is None and is_native(a, b, routine, layout.shape, choice)):
        if lazy:
            return _contract_by_dask(x, y, terms, output, native)
        x, y, _ = fuse(a, b, layout)
        x = x if layout.left.op == "N" else x.swapaxes(-1, -2)
        y = y if layout.right.op == "N" else y.swapaxes(-1, -2)
        return split(namespace(a).matmul(x, y), layout)
    if lazy and 0 in (*layout.shape, *layout.split):
        return make_zeros(a, b, layout)
    a, b, chunks = fuse(a, b, layout)
    call = _make_call(a, b, layout, update, choice)
    if weights is not None:
        call = call._replace(A=Scaled(call.A, weights))
    return split(compute_call(call), layout, chunks)


def is_weighed(
    a: Any, b: Any, terms: TermPair, output: Term, choice: Choice, letter: str
) -> bool:
    """Tell whether two operands are multiplied by gemm over one letter, and by int8."""
    a, b, _, layout = _reduce(a, b, terms, output)
    if layout.inner != (letter,):
        return False
    return not is_native(a, b, "gemm", layout.shape, choice)


def is_native(a: Any, b: Any, routine: str, shape: Shape, choice: Choice) -> bool:
    """Decide whether a product is left to the library of its operands.

    Array expressions are never left to dask: it lacks most of these products for them.
    """
    dtype = dtype_of(a, b)
    if dtype.char not in PRODUCT_KINDS:
        return True
    x = b if is_dask(b) else a
    if hasattr(x, "expr"):
        return False
    return choice.is_native(engine_for(x, choice), routine, dtype, shape)


def _contract_by_dask(
    a: Any, b: Any, terms: TermPair, output: Term, native: Native | None
) -> Any:
    """Contract two operands as dask does, by `native` if its own function is known."""
    import dask.array as da

    if native is None:
        own = dict.fromkeys((*terms[0], *terms[1]))
        letters = dict(zip(own, ascii_letters, strict=False))
        left, right, out = ("".join(letters[x] for x in y) for y in (*terms, output))
        found = da.einsum(f"{left},{right}->{out}", a, b)
    else:
        found = native()
    return found.astype(dtype_of(a, b))  # dask sums small integers in larger types


def multiply_entries(a: Any, b: Any, terms: TermPair, output: Term) -> Any:
    """Multiply entries where no letter is contracted."""
    x, y = (
        permute(x, tuple(term.index(t) for t in output if t in term))[
            tuple(slice(None) if t in term else None for t in output)
        ]
        for x, term in zip((a, b), terms, strict=True)
    )
    return x * y


def _reduce(
    a: Any, b: Any, terms: TermPair, output: Term
) -> tuple[Any, Any, TermPair, PairLayout]:
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
