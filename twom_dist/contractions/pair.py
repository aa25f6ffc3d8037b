"""The contraction of two operands: one gemm of stacks, herk or syrk, or the BLAS."""

from collections.abc import Callable, Sequence
from functools import partial
from string import ascii_letters
from typing import Any, Literal

import numpy as np

from ..api.routine import compute_call
from ..auto.choose import is_small
from ..kernels.family import address_of, family_of, namespace
from ..kernels.limits import Shape
from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..problem.matrices import dask_array, is_dask
from ..tiles.diagonal import Scaled
from ..tiles.routine import ROUTINES
from ..typing import Op
from .arrays import (
    PRODUCT_KINDS,
    dtype_of,
    engine_for,
    permute,
    reduce_operand,
    sort_axes,
    strides_of,
)
from .layout import PairLayout, fuse, lay_out, make_lazy, make_zeros, split
from .subscripts import Term, reduce_each

Native = Callable[[], Any]  # what computes a contraction natively
TermPair = tuple[Term, Term]
Axes = tuple[int, ...]
# X X^H or X X^T.
Update = Literal["herk", "syrk"]
UPDATES: tuple[Update, ...] = ("herk", "syrk")
_FEW = 64  # larger arrays are compared by a few entries first


def contract_pair(
    a: Any,
    b: Any,
    terms: TermPair,
    output: Term,
    choice: Choice,
    native: Native | None = None,
    weights: tuple[str, Any] | None = None,
) -> Any:
    """Sum the products of the entries of two operands.

    `native`: what computes the same by dask, if it is one of its functions. `weights`:
    a letter and a vector that scales its axis; the result is None unless gemm contracts
    this letter alone, and through int8.
    """
    first, second = reduce_each(terms, output, (a.shape, b.shape))
    a, b = reduce_operand(a, first), reduce_operand(b, second)
    terms = first.term, second.term
    shapes, strides = (a.shape, b.shape), (strides_of(a), strides_of(b))
    layout = lay_out(first.term, second.term, output, shapes, strides)
    letter, vector = weights or ("", None)
    others = layout.inner != (letter,)
    if letter and (others or is_native(a, b, "gemm", layout.shape, choice)):
        return None
    if not layout.inner:
        return multiply_entries(a, b, terms, output)
    x, y, lazy = a, b, is_dask(a)
    if lazy != is_dask(b):
        a, b = make_lazy(a, b, terms, layout)
        lazy = True
    small, among = not letter and _is_surely_native(a, b, layout, choice), None
    if vector is not None:
        # A w A^H is Hermitian for real weights alone.
        among = UPDATES[1:] if vector.dtype.kind == "c" else UPDATES
    update = None if small else find_update(a, b, layout, choice, among)
    routine = update or "gemm"
    if small or (not letter and is_native(a, b, routine, layout.shape, choice)):
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
    if vector is not None:
        call = call._replace(A=Scaled(call.A, vector))
    return split(compute_call(call), layout, chunks)


def is_native(a: Any, b: Any, routine: str, shape: Shape, choice: Choice) -> bool:
    """Decide whether a product is left to the library of its operands."""
    dtype = dtype_of(a, b)
    if dtype.char not in PRODUCT_KINDS:
        return True
    engine = engine_for(b if is_dask(b) else a, choice)
    return choice.is_native(engine, routine, dtype, shape)


def _contract_by_dask(
    a: Any, b: Any, terms: TermPair, output: Term, native: Native | None
) -> Any:
    """Contract two operands as dask does, by `native` if its own function is known."""
    if native is None:
        own = dict.fromkeys((*terms[0], *terms[1]))
        letters = dict(zip(own, ascii_letters, strict=False))
        left, right, out = ("".join(letters[x] for x in y) for y in (*terms, output))
        found = dask_array().einsum(f"{left},{right}->{out}", a, b)
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


# --- one operand twice: updates, which take half the int8 products --------------------


def find_update(
    a: Any,
    b: Any,
    layout: PairLayout,
    choice: Choice,
    among: Sequence[Update] | None = None,
) -> Update | None:
    """Name the update that a product is, if it is to be computed as one.

    NumPy and CuPy arrays are equal if they share memory, and conjugate if all entries
    are; dask arrays are compared by their names. Updates do not equilibrate. `among`:
    those that are computed as such; by default those that are not native.
    """
    if layout.mirror is None or a.dtype != b.dtype or choice.equilibrate is not None:
        return None
    wanted: Sequence[Update] = UPDATES if a.dtype.char in PRODUCT_KINDS else ()
    if among is not None:
        wanted = [routine for routine in wanted if routine in among]
    elif not is_dask(a):
        # All entries are compared only where that may save int8 products.
        engine, shape = engine_for(a, choice), layout.shape
        native = partial(choice.is_native, engine, dtype=a.dtype, shape=shape)
        wanted = [x for x in wanted if not native(x, tell=False)]
    if not wanted:
        return None
    found = _compare(a, b, *layout.mirror, waits=choice.data_driven)
    return found if found in wanted else None


def _compare(a: Any, b: Any, left: Axes, right: Axes, *, waits: bool) -> Update | None:
    """Compare operands; `waits`: whether the host waits for a device anyway."""
    if is_dask(a):
        return _compare_names(a, b, left, right)
    x, y = a.transpose(left), b.transpose(right)
    if x.strides == y.strides and address_of(x) == address_of(y):
        return "syrk"
    # Half of the int8 products take much longer than one more answer of a device. The
    # axes of ``conj()`` lie in the same order: not those of two matrices as they are
    # usually stored.
    on_host = family_of(x) == "numpy"
    if x.dtype.kind != "c" or not (on_host or (waits and sort_axes(x) == sort_axes(y))):
        return None
    return "herk" if _is_conjugate(x, y) else None


def _is_conjugate(x: Any, y: Any) -> bool:
    """Compare x with the conjugate of y: a few entries first, then all."""
    if family_of(x) == "numpy" and x.size:
        # As Python's numbers, in a tenth of an array's time.
        one, other = x.item(0), y.item(0).conjugate()
        if one != other and one == one:
            return False
    few = tuple(slice(None, None, -(-size // 2) or 1) for size in x.shape)
    # NaN counts as equal, as it does where dask arrays are compared by name.
    equal = partial(namespace(x).array_equal, equal_nan=True)
    if x.size > _FEW and not equal(x[few], y[few].conj()):
        return False
    return bool(equal(x, y.conj()))


def _compare_names(a: Any, b: Any, left: Axes, right: Axes) -> Update | None:
    """Name the update that two dask matrices make, by the names of their arrays."""
    # Axis right[i] of b is axis left[i] of a.
    turn = tuple(left[right.index(axis)] for axis in range(len(right)))
    back = tuple(right[left.index(axis)] for axis in range(len(left)))
    for x, y, axes in ((a, b, turn), (b, a, back)):
        straight = axes == tuple(range(len(axes)))
        turned = x if straight else x.transpose(axes)
        if turned.name == y.name:
            return "syrk"
        if x.dtype.kind == "c":
            conjugates = {turned.conj().name}
            if not straight:
                conjugates.add(x.conj().transpose(axes).name)
            if y.name in conjugates:
                return "herk"
    return None


# --- two matrices as they are ---------------------------------------------------------

# For matrices of one dtype layouts and letters would take a third of our Python's time
# for a small product with NumPy, and two thirds with CuPy.


def are_plain(x: Any, y: Any) -> bool:
    """Tell matrices, or stacks with one axis, that may be multiplied as they are."""
    kind = type(x)
    return (
        kind is type(y)
        and kind.__name__ == "ndarray"
        and (kind is np.ndarray or family_of(x) == "cupy")
        and x.ndim == y.ndim in (2, 3)
        and x.shape[:-2] == y.shape[:-2]
        and x.shape[-1] == y.shape[-2]
        and x.dtype.char == y.dtype.char
        and x.dtype.char in PRODUCT_KINDS
    )


def differ_surely(x: Any, y: Any, *, waits: bool) -> bool:
    """Tell, without a wait, matrices that `_compare` takes for no x and x^T or x^H."""
    if 0 in (x.size, y.size):
        return False
    if type(x) is not np.ndarray:
        (down, right), (below, beside) = x.strides[-2:], y.strides[-2:]
        turned = (abs(down) < abs(right)) != (abs(beside) < abs(below))
        return bool(turned if waits else x.data.ptr != y.data.ptr)
    one, other = x.item(0), y.item(0)
    return bool(one != other and one != other.conjugate() and one == one)


def multiply_plain(x: Any, y: Any, choice: Choice) -> Any:
    """Multiply them natively, or as gemm does."""
    shape = *x.shape[-2:], y.shape[-1]
    small = type(x) is np.ndarray and choice.by_size and is_small(x.dtype, shape)
    if small or is_native(x, y, "gemm", shape, choice):
        return namespace(x).matmul(x, y)
    return compute_call(Call(Terms(ROUTINES["gemm"], choice), x, y))
