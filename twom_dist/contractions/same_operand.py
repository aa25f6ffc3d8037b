"""One operand twice: products that are updates, which take half the int8 products."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from ..kernels.family import address_of, family_of, namespace
from ..problem.choice import Choice
from ..problem.matrices import is_dask
from .arrays import PRODUCT_KINDS, engine_for, sort_axes
from .layout import PairLayout

Axes = tuple[int, ...]
# X X^H or X X^T.
Update = Literal["herk", "syrk"]
UPDATES: tuple[Update, ...] = ("herk", "syrk")
_FEW = 64  # larger arrays are compared by a few entries first


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
