"""What every block task of a product needs to know: one small picklable record."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from ..kernels.contract import Engine
from ..kernels.registry import get_engine
from ..moduli import ResidueSystem, make_system
from ..typing import Array, Op, Side


@dataclass(frozen=True)
class ProductSpec:
    """A product ``alpha op(A) op(B) + beta C``, apart from the matrices.

    Attributes
    ----------
    dtype : str
        Of the result, as ``numpy.dtype.str``.
    k : int
        Whole inner dimension.
    method : str
        Of the residue system; "native" calls the BLAS of the blocks' family.
    moduli : tuple of (int, str)
        `ResidueSystem.choice`; empty for the native product.
    scaling : {"norm", "accurate"}
    engine : str
        Name for `get_engine`.
    cache_bytes : int
        Bytes of encoded tiles that a process may keep.
    lazy : bool
        Whether blocks come from a scheduler, where a user may refill them in place
        between two runs.
    """

    dtype: str
    k: int
    method: str
    moduli: tuple[tuple[int, str], ...]
    op_a: Op = "N"
    op_b: Op = "N"
    alpha: complex = 1
    beta: complex = 0
    scaling: str = "norm"
    engine: str = "cpu"
    cache_bytes: int = 0
    lazy: bool = False

    @property
    def native(self) -> bool:
        """Whether the blocks go to the BLAS of their own family."""
        return not self.moduli

    @property
    def system(self) -> ResidueSystem:
        """The residue system (cached per process)."""
        return make_system(self.method, self.moduli)

    def op(self, side: Side) -> Op:
        """Return op_a or op_b."""
        return self.op_a if side == "left" else self.op_b


def spec_of(system: ResidueSystem | None, **fields: Any) -> ProductSpec:
    """Make the spec of a product with a residue system; None is the native product."""
    if system is None:
        return ProductSpec(method="native", moduli=(), **fields)
    return ProductSpec(method=system.method, moduli=system.choice, **fields)


def load_engine(spec: ProductSpec) -> Engine:
    """Load the engine of a spec in this process."""
    return get_engine(spec.engine)


def load_namespace(spec: ProductSpec) -> Any:
    """Load the module that makes arrays of the blocks' family: numpy or cupy."""
    return import_module(load_engine(spec).family)


def as_rows(block: Array, side: Side, op: Op) -> Array:
    """View a block of A as rows of op(A), or of B as rows of op(B)^T.

    The conjugate of "C" is left to the engine; see `is_conjugated`.
    """
    return block if (op == "N") == (side == "left") else block.T


def is_conjugated(op: Op) -> bool:
    """Whether an op takes the complex conjugate."""
    return op == "C"


def native_rows(block: Any, side: Side, op: Op) -> Any:
    """View a block as rows, with the conjugate taken."""
    rows = as_rows(block, side, op)
    return np.conj(rows) if is_conjugated(op) else rows
