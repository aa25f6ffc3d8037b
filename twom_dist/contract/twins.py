"""Whether one operand of a contraction is the other, or its conjugate.

Then the product is ``X X^T`` or ``X X^H``: syrk and herk compute it for half the work.
"""

from functools import partial
from typing import Any, Literal

from ..kernels.family import namespace
from ..problem.matrices import is_dask
from .layout import Layout

Twin = Literal["herk", "syrk"]
# Entries that are compared before all are.
_FEW = 64


def find_twin(a: Any, b: Any, layout: Layout) -> Twin | None:
    """Name the update that the product is; None where the operands differ.

    NumPy and CuPy arrays are one where they share memory, and conjugate where all
    entries are; dask arrays tell both by their names.
    """
    if layout.mirror is None or a.dtype != b.dtype or is_dask(a) != is_dask(b):
        return None
    left, right = layout.mirror
    if is_dask(a):
        return _compare_names(a, b, left, right)
    x, y = a.transpose(left), b.transpose(right)
    if _pointer(x) == _pointer(y) and x.strides == y.strides:
        return "syrk"
    if x.dtype.kind != "c" or not _is_conjugate(x, y):
        return None
    return "herk"


def _pointer(x: Any) -> int:
    """Return the address of the first entry."""
    described = getattr(x, "__array_interface__", None) or x.__cuda_array_interface__
    return int(described["data"][0])


def _is_conjugate(x: Any, y: Any) -> bool:
    """Compare a few entries, and if they agree all, with those of the conjugate."""
    few = tuple(slice(None, None, -(-size // 2) or 1) for size in x.shape)
    # dask arrays with a NaN are told by their names.
    equal = partial(namespace(x).array_equal, equal_nan=True)
    if x.size > _FEW and not equal(x[few], y[few].conj()):
        return False
    return bool(equal(x, y.conj()))


def _compare_names(
    a: Any, b: Any, left: tuple[int, ...], right: tuple[int, ...]
) -> Twin | None:
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
