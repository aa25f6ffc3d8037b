"""A diagonal between op(A) and op(B): A as an operand that is scaled when read.

Its entries scale the columns of op(A). Tiles are scaled when they are read, one at a
time, so no scaled copy of A exists. Each entry is rounded once, whatever the tiling.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError, PlanError
from ..kernels.family import convert, namespace
from ..typing import Array
from .blocks import cast
from .routine import Routine
from .rows import Row
from .spec import Spec, as_rows, load_engine


class Scaled(NamedTuple):
    """A, and the diagonal that scales the columns of op(A)."""

    matrix: Any
    diag: Any

    @property
    def shape(self) -> Any:
        """Shape of A, if it has one."""
        return self.matrix.shape

    @property
    def dtype(self) -> Any:
        """Dtype of A, if it has one."""
        return self.matrix.dtype


def named(x: Any) -> dict[str, Any]:
    """Return the arrays of A by their names in errors."""
    return {"A": x.matrix, "diag": x.diag} if isinstance(x, Scaled) else {"A": x}


def from_named(arrays: Mapping[str, Any]) -> Any:
    """Undo `named`."""
    matrix, diag = arrays["A"], arrays.get("diag")
    return matrix if diag is None else Scaled(matrix, diag)


def check_diagonal(routine: Routine, diag: Any, k: int, dtype: np.dtype[Any]) -> str:
    """Return the dtype of a diagonal in a product of this dtype, or refuse it."""
    # NaN stands for the unknown.
    if len(diag.shape) == 1 and diag.shape[0] != diag.shape[0]:
        problem = "diag has chunks of unknown size"
        remedy = "Call its method compute_chunk_sizes() first"
        raise PlanError(problem, remedy, "unknown-chunks")
    if diag.shape != (k,):
        problem = (
            f"diag has shape {tuple(diag.shape)}, but stands between matrices with"
        )
        remedy = f"Give one number for each column of op(A): {k} of them"
        raise PlanError(f"{problem} k={k}", remedy, "diag-shape")
    if diag.dtype.kind != "c":
        return np.finfo(dtype).dtype.str
    if routine.hermitian:
        unlike = f"the result of {routine.name} would not be Hermitian"
        problem = f"diag is {diag.dtype}, and with a complex one {unlike}"
        remedy = "Give diag.real, or call td.gemm or td.syrk"
        raise ArgumentError(problem, remedy, "diag-complex")
    return dtype.str


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


class ScaledRow(Row):
    """A row of tiles of op(A), whose columns are scaled before anything else."""

    __slots__ = ("diag",)

    made = True

    def __init__(self, row: Row, diag: Sequence[Array]) -> None:
        super().__init__(row.side, row.tiles, row.shifts)
        self.diag = diag

    def view(self, step: int, spec: Spec) -> Array:
        """View a tile as rows of op(A), scaled: one at a time."""
        found = self._views.get(step)
        if found is None:
            self._views.clear()
            rows = as_rows(self.tiles[step], self.side, spec.op_a)
            # The engine takes the conjugate of what it is given.
            diag = self.diag[step].conj() if spec.op_a == "C" else self.diag[step]
            found = self._views[step] = scale_columns(rows, diag)
        return found

    def scaled_by(self, step: int) -> bytes:
        """Identify the entries that scale a tile."""
        own: bytes = self.diag[step].tobytes()
        return own

    def cut(
        self, tiles: Sequence[Array], steps: Sequence[slice], shifts: Any = None
    ) -> Row:
        """Return a row of the tiles that a tile of all of k is cut to."""
        entries = [self.diag[0][step] for step in steps]
        return ScaledRow(super().cut(tiles, steps, shifts), entries)

    def whole(self, spec: Spec) -> Row:
        """Return a row of one tile, which is scaled now."""
        return Row(self.side, [as_rows(self.view(0, spec), self.side, spec.op_a)])


def scaled_row(a: Array, diag: Any, spec: Spec) -> Row:
    """Return A as a row of one tile."""
    return ScaledRow(Row("left", [a]), [as_entries(spec, diag)])


def scaling_by(diag: Any, spec: Spec) -> Callable[[Array], Array]:
    """Return what scales A, or matrices of a stack, as they are stored."""
    entries = as_entries(spec, diag)
    return lambda a: ScaledRow(Row("left", [a]), [entries]).whole(spec).tiles[0]


def as_entries(spec: Spec, diag: Any) -> Array:
    """Promote some entries of the diagonal, and bring them to where A lies."""
    found = cast(diag, np.dtype(spec.diag))
    return convert(found, load_engine(spec).family)
