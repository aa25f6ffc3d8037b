"""A diagonal between op(A) and op(B): its entries scale the columns of op(A).

Tiles are scaled where they are taken, one at a time, so that no scaled copy of A
exists. Each entry is rounded once, by itself, whatever the tiling.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kernels.family import convert, namespace
from ..typing import Array
from .blocks import cast
from .rows import Row
from .spec import Spec, as_rows, load_engine


def scale_columns(x: Array, diag: Array) -> Array:
    """Return ``x diag``, each real operation rounded by itself.

    NumPy and CuPy may fuse those of two complex numbers, by machine and by strides.
    """
    out, multiply = namespace(x).empty_like(x), namespace(x).multiply
    # NaN and Inf are results like any others.
    with np.errstate(all="ignore"):
        if x.dtype.kind != "c":
            return multiply(x, diag, out=out)
        real, imag = out.real, out.imag
        multiply(x.real, diag.real, out=real)
        multiply(x.imag, diag.real, out=imag)
        if diag.dtype.kind == "c":
            real -= x.imag * diag.imag
            imag += x.real * diag.imag
    return out


def scale_rows(rows: Array, diag: Array, spec: Spec) -> Array:
    """Scale a view of a tile of A, or of a stack, as rows of op(A)."""
    # The engine takes the conjugate of what it is given.
    own = diag.conj() if spec.op_a == "C" else diag
    return scale_columns(rows, own)


def scale_stored(a: Array, diag: Array, spec: Spec) -> Array:
    """Scale A, or a stack, as it is stored."""
    rows = scale_rows(as_rows(a, "left", spec.op_a), diag, spec)
    return as_rows(rows, "left", spec.op_a)


class ScaledRow(Row):
    """A row of tiles of op(A), whose columns are scaled before anything else."""

    __slots__ = ("diag",)

    def __init__(self, row: Row, diag: Sequence[Array]) -> None:
        super().__init__(row.side, row.tiles, row.shifts)
        self.diag = diag

    def view(self, step: int, spec: Spec) -> Array:
        """View a tile as rows of op(A), scaled: one at a time."""
        found = self._views.get(step)
        if found is None:
            self._views.clear()
            rows = as_rows(self.tiles[step], self.side, spec.op_a)
            found = self._views[step] = scale_rows(rows, self.diag[step], spec)
        return found

    def scaled_by(self, step: int) -> bytes:
        """Identify the entries that scale a tile."""
        own: bytes = self.diag[step].tobytes()
        return own


def as_entries(spec: Spec, diag: Any) -> Array:
    """Promote some entries of the diagonal, and bring them to where A lies."""
    found = cast(diag, np.dtype(spec.diag))
    return convert(found, load_engine(spec).family)
