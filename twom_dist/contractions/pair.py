"""The contraction of two operands: one gemm of stacks, an update, or the BLAS."""

from functools import partial
from typing import Any, Literal

import numpy as np

from ..api.routine import compute_call
from ..auto.choose import is_small
from ..errors import PlanError
from ..kernels.family import address_of, family_of, namespace
from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..problem.matrices import is_dask
from ..tiles.routine import ROUTINES
from ..typing import Op
from . import recorded
from .arrays import reduce_operand, sort_axes, strides_of
from .entries import multiply_entries, repeats_for_vector, sum_views
from .fuse import fuse, fuse_lazily, make_lazy, make_zeros, split, split_blocks
from .layout import FusedSide, PairLayout, lay_out
from .letters import Term, reduce_each
from .native import PRODUCT_KINDS, Native, contract_by_dask, is_left_to_dask

_ENGINES = {"numpy": "cpu", "cupy": "cuda"}
# X X^H or X X^T, which take half the int8 products.
Twin = Literal["herk", "syrk"]
# Larger arrays are compared by a few entries first.
_FEW = 64


def contract_pair(
    a: Any,
    b: Any,
    terms: tuple[Term, Term],
    output: Term,
    choice: Choice,
    diag: Any = None,
    native: Native | None = None,
) -> Any:
    """Sum the products of the entries of two operands.

    `diag`: weights of the contracted axis, where `takes_diagonal` allows them.
    `native`: what computes the same by dask, if it is one of its functions.
    """
    a, b, (left, right), layout = _reduce(a, b, terms, output)
    if not layout.inner:
        return multiply_entries(a, b, left, right, output)
    given = a, b
    if is_dask(a) != is_dask(b):
        a, b = make_lazy(a, b, layout)
    if recording := recorded.current():
        recording.sizes.append(layout.shape)
        recording.calls.append(_as_call(a, b, layout, choice, diag, recording.shapes))
        return make_zeros(a, b, layout)
    if is_dask(a):
        twin = _find_twin(a, b, layout, choice, diag)
        asked_for = twin or "gemm", layout.shape, choice
        if diag is None and is_left_to_dask(a, b, *asked_for):
            return contract_by_dask(*given, (left, right), output, native)
        if 0 in (*layout.shape, *layout.split):
            return make_zeros(a, b, layout)
        return _contract_lazily(a, b, layout, twin, choice, diag)
    if (
        diag is None
        and repeats_for_vector(a, b, layout)
        and is_native(a, layout, choice)
    ):
        return sum_views(a, b, (left, right), output)
    small = diag is None and is_surely_native(a, b, layout, choice)
    twin = None if small else _find_twin(a, b, layout, choice, diag)
    a, b = fuse(a, layout.left), fuse(b, layout.right)
    if small:
        return split(multiply_natively(a, b, layout), layout)
    if twin:
        return split(update(twin, a, b, layout, choice, diag), layout)
    return split(multiply(a, b, layout, choice, diag), layout)


def takes_diagonal(
    a: Any,
    b: Any,
    terms: tuple[Term, Term],
    output: Term,
    choice: Choice,
    letter: str,
) -> bool:
    """Tell whether two operands are multiplied by gemm over one letter, and by int8."""
    a, b, _, layout = _reduce(a, b, terms, output)
    dtype = np.result_type(a.dtype, b.dtype)
    if layout.inner != (letter,) or dtype.char not in PRODUCT_KINDS:
        return False
    if is_dask(a) or is_dask(b):
        return not is_left_to_dask(a, b, "gemm", layout.shape, choice)
    about = engine_for(a, choice), "gemm", dtype, layout.shape
    return not choice.is_native(*about, tell=False)


def _reduce(
    a: Any, b: Any, terms: tuple[Term, Term], output: Term
) -> tuple[Any, Any, tuple[Term, Term], PairLayout]:
    """Sum what one operand alone has, and lay out the product."""
    first, second = reduce_each(terms, output, (a.shape, b.shape))
    a, b = reduce_operand(a, first), reduce_operand(b, second)
    shapes, strides = (a.shape, b.shape), (strides_of(a), strides_of(b))
    layout = lay_out(first.term, second.term, output, shapes, strides)
    return a, b, (first.term, second.term), layout


def _contract_lazily(
    a: Any, b: Any, layout: PairLayout, twin: Twin | None, choice: Choice, diag: Any
) -> Any:
    (a, left), (b, right) = fuse_lazily(a, b, layout)
    if twin:
        found = update(twin, a, b, layout, choice, diag)
    else:
        found = multiply(a, b, layout, choice, diag)
    return split_blocks(found, layout, left, right)


def _as_call(
    a: Any, b: Any, layout: PairLayout, choice: Choice, diag: Any, shapes: bool
) -> Call:
    """Return the call that multiplies two operands, through int8 if its method is."""
    dtype = np.result_type(a.dtype, b.dtype)
    if dtype.char not in PRODUCT_KINDS:
        problem = f"{a.dtype} times {b.dtype} is left to NumPy, CuPy or dask"
        remedy = "For an exact product of integers call td.integers.gemm"
        raise PlanError(problem, remedy, "dtype")
    if shapes:
        sides = layout.left.shape, layout.right.shape
        weights = None if diag is None else diag.shape
        return _ask("gemm", _ops(layout), choice, *sides)._replace(diag=weights)
    twin = _find_twin(a, b, layout, choice, diag)
    if is_dask(a):
        (a, _), (b, _) = fuse_lazily(a, b, layout)
    else:
        a, b = fuse(a, layout.left), fuse(b, layout.right)
    if twin:
        return _ask_update(twin, a, b, layout, choice)._replace(diag=diag)
    return _ask("gemm", _ops(layout), choice, a, b)._replace(diag=diag)


def _find_twin(
    a: Any, b: Any, layout: PairLayout, choice: Choice, diag: Any = None
) -> Twin | None:
    """Name the update that the product is, if it is to be computed as one."""
    # Updates do not equilibrate.
    known = choice.equilibrate is not None
    if layout.mirror is None or known or a.dtype.char not in PRODUCT_KINDS:
        return None
    if diag is not None:
        # Through int8 in any case. A diag A^H is Hermitian for real weights alone.
        twin = find_twin(a, b, layout, waits=choice.by_entries)
        return None if twin == "herk" and diag.dtype.kind == "c" else twin
    if is_dask(a):
        return find_twin(a, b, layout)
    # All entries are compared only where that may save int8 products.
    engine = engine_for(a, choice)
    twins = [
        name
        for name in ("herk", "syrk")
        if not choice.is_native(engine, name, a.dtype, layout.shape, tell=False)
    ]
    found = find_twin(a, b, layout, waits=choice.by_entries) if twins else None
    return found if found in twins else None


# --- the product --------------------------------------------------------------------


def engine_for(x: Any, choice: Choice) -> str:
    """Name the engine of a product of arrays in memory."""
    return _ENGINES[family_of(x)] if choice.engine == "auto" else choice.engine


def is_surely_native(a: Any, b: Any, layout: PairLayout, choice: Choice) -> bool:
    """Tell whether NumPy arrays are left to NumPy, whatever else is found out."""
    return (
        isinstance(a, np.ndarray)
        and a.dtype.char == b.dtype.char
        and a.dtype.char in PRODUCT_KINDS
        and choice.by_size
        and is_small(a.dtype, layout.shape)
    )


def is_native(x: Any, layout: PairLayout, choice: Choice) -> bool:
    """Decide whether a product of arrays in memory is left to their library."""
    if x.dtype.char not in PRODUCT_KINDS:
        return True
    return choice.is_native(engine_for(x, choice), "gemm", x.dtype, layout.shape)


def multiply(
    a: Any, b: Any, layout: PairLayout, choice: Choice, diag: Any = None
) -> Any:
    """Multiply (stacks of) matrices, fused as their layout says."""
    dtype = a.dtype if a.dtype == b.dtype else np.result_type(a.dtype, b.dtype)
    if dtype.char not in PRODUCT_KINDS:
        return multiply_natively(a, b, layout)
    small = not is_dask(a) and choice.by_size
    if small and choice.is_native(engine_for(a, choice), "gemm", dtype, layout.shape):
        return multiply_natively(a, b, layout)
    call = _ask("gemm", _ops(layout), choice, a, b)
    return compute_call(call._replace(diag=diag))


def update(
    twin: Twin, a: Any, b: Any, layout: PairLayout, choice: Choice, diag: Any = None
) -> Any:
    """Compute a product whose right side is the left one transposed, or ^H of it."""
    call = _ask_update(twin, a, b, layout, choice)
    return compute_call(call._replace(diag=diag))


def _ask_update(twin: Twin, a: Any, b: Any, layout: PairLayout, choice: Choice) -> Call:
    if layout.left.op == "N":
        return _ask(twin, ("N",), choice, a)
    if twin == "syrk":
        return _ask(twin, ("T",), choice, a)
    if layout.right.op == "N":
        return _ask(twin, ("C",), choice, b)
    return _ask(twin, ("N",), choice, a.swapaxes(-1, -2))


def _ops(layout: PairLayout) -> tuple[Op, Op]:
    return layout.left.op, layout.right.op


def compute(name: str, ops: tuple[Op, ...], choice: Choice, *matrices: Any) -> Any:
    """Compute a routine of matrices."""
    return compute_call(_ask(name, ops, choice, *matrices))


def _ask(name: str, ops: tuple[Op, ...], choice: Choice, *matrices: Any) -> Call:
    return Call(Terms(ROUTINES[name], choice, ops), *matrices)


def multiply_natively(a: Any, b: Any, layout: PairLayout) -> Any:
    """Multiply with the arrays' own library."""
    x, y = _straight(a, layout.left), _straight(b, layout.right)
    return namespace(a).matmul(x, y)


def _straight(x: Any, side: FusedSide) -> Any:
    return x if side.op == "N" else x.swapaxes(-1, -2)


# --- one operand twice --------------------------------------------------------------


def find_twin(a: Any, b: Any, layout: PairLayout, *, waits: bool = True) -> Twin | None:
    """Name the update that the product is; None where the operands differ.

    NumPy and CuPy arrays are equal if they share memory, and conjugate if all entries
    are; dask arrays are compared by their names. `waits`: whether the host waits for a
    device anyway, during this product.
    """
    if layout.mirror is None or a.dtype != b.dtype:
        return None
    left, right = layout.mirror
    if is_dask(a):
        return compare_names(a, b, left, right)
    x, y = a.transpose(left), b.transpose(right)
    if x.strides == y.strides and address_of(x) == address_of(y):
        return "syrk"
    if x.dtype.kind != "c" or not _is_worth_comparing(x, y, waits):
        return None
    return "herk" if _is_conjugate(x, y) else None


def _is_worth_comparing(x: Any, y: Any, waits: bool) -> bool:
    """Tell whether entries are compared, for which the host waits for a device.

    Only where the product waits as well, for its moduli: half of the int8 products take
    much longer than one more answer. And only where the axes lie in the same order, as
    ``conj()`` leaves them: so not for two matrices as they are usually stored.
    """
    return family_of(x) == "numpy" or (waits and sort_axes(x) == sort_axes(y))


def _is_conjugate(x: Any, y: Any) -> bool:
    """Compare x with the conjugate of y: a few entries first, then all."""
    if family_of(x) == "numpy" and x.size and _differs_first(x, y):
        return False
    few = tuple(slice(None, None, -(-size // 2) or 1) for size in x.shape)
    # NaN counts as equal, as it does where dask arrays are compared by name.
    equal = partial(namespace(x).array_equal, equal_nan=True)
    if x.size > _FEW and not equal(x[few], y[few].conj()):
        return False
    return bool(equal(x, y.conj()))


def _differs_first(x: Any, y: Any) -> bool:
    """Compare first entries as Python's numbers, in a tenth of an array's time."""
    one, other = x.item(0), y.item(0).conjugate()
    return bool(one != other and one == one)


def compare_names(
    a: Any, b: Any, left: tuple[int, ...], right: tuple[int, ...]
) -> Twin | None:
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
