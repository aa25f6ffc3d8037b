"""The small picklable record that every task of a product gets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from ..kernels.protocol import Engine
from ..kernels.registry import get_engine
from ..moduli import ResidueSystem, make_system
from ..moduli.accuracy import NATIVE_METHOD, product_rounding, unit_roundoff
from ..typing import Array, Cell, Op, Side, Uplo
from .routine import ROUTINES, PairBlock, Routine

SIDES: tuple[Side, Side] = ("left", "right")


@dataclass(frozen=True)
class Spec:
    """A product, apart from the matrices."""

    routine: Routine
    dtype: str  # of the result, as ``numpy.dtype.str``
    k: int  # whole inner dimension
    method: str  # of the residue system; "blas" calls the BLAS of the blocks' family
    moduli: tuple[tuple[int, str], ...]  # `ResidueSystem.choice`; empty if native
    # For an update, those of its product: op_b is "C" or "T" if op_a is "N"
    op_a: Op = "N"
    op_b: Op = "N"
    alpha: complex = 1
    beta: complex = 0
    uplo: Uplo = "full"  # of an update
    # Numbers that make an entry of C: 2 for an unevaluated sum, in tiles (2, m, n).
    components: int = 1
    engine: str = "cpu"  # name for `get_engine`
    equilibrate: bool = False  # whether op(A) and op(B) are along k, where that pays
    # Whether the entries are yet to choose the moduli; `moduli` are the expected ones.
    data_driven: bool = False
    # Bound of rho, for all pairs of rows and columns; 0 before. Of moduli that the
    # entries are yet to choose: what the given ones have to suffice for.
    rho: float = 0.0
    # What bounds rho, or "": "sums" of rows, with their rounding "errors" or without,
    # their "octaves", or "pairs" of them; "beyond" if rho exceeds what moduli reach.
    decided_by: str = ""
    empty: bool = False  # whether nothing is multiplied, alpha or a dimension being 0
    cache_bytes: int = 0  # bytes of encoded tiles that a process may keep
    # (int, int): rows and columns of tiles of C that a worker multiplies side by side,
    # panel by panel of k; (0, 0) leaves their order to dask.
    sweep: tuple[int, int] = (0, 0)
    lazy: bool = False  # whether a scheduler has the blocks, which users may refill
    exact: bool = False  # whether entries are integers, encoded as they are
    operand: str = ""  # dtype of A and B as engines take them; empty if of the result
    # Dtypes of the tiles of A and B until they are encoded, if engines take others
    stored: tuple[str, ...] = ()
    diag: str = ""  # dtype of the diagonal between both, real or the operands', or ""

    @property
    def native(self) -> bool:
        """True if the blocks go to the BLAS of their family."""
        return not self.moduli

    @property
    def stands_in(self) -> bool:
        """True if the product is native for want of an accurate residue system."""
        return self.native and self.decided_by == "beyond"

    @property
    def system(self) -> ResidueSystem:
        """The residue system (cached per process)."""
        return make_system(self.method, self.moduli)

    @property
    def itemsize(self) -> int:
        """Bytes of an entry of C."""
        return np.dtype(self.dtype).itemsize

    @property
    def input_itemsize(self) -> int:
        """Bytes of an entry of A or B, whichever is larger, until it is encoded."""
        return max(self.tile_dtype(side).itemsize for side in SIDES)

    @property
    def operand_dtype(self) -> np.dtype[Any]:
        """The dtype of A and B as engines take them."""
        return np.dtype(self.operand or self.dtype)

    @property
    def widens(self) -> bool:
        """True if tiles are converted as they are encoded."""
        return bool(self.stored) and not self.system.wraps

    def tile_dtype(self, side: Side) -> np.dtype[Any]:
        """Return the dtype of the tiles of A, or of B, until they are encoded."""
        if not self.stored:
            return self.operand_dtype
        return np.dtype(self.stored[SIDES.index(side)])

    def made_bytes(self, mb: int, nb: int, kb: int) -> int:
        """Return the bytes of what a task makes of a tile before it is encoded."""
        found = 0
        if self.diag:
            # A scaled tile of A, and a part of its products.
            found += 2 * self.input_itemsize * mb * kb
        if self.widens:
            # Integers are widened as they are encoded.
            found += self.operand_dtype.itemsize * max(mb, nb) * kb
        return found

    @property
    def input_rounding(self) -> float:
        """The relative error of an entry of op(A) before it is multiplied."""
        return product_rounding(self.diag) if self.diag else 0.0

    @property
    def factors(self) -> tuple[str, ...]:
        """Names of the factors that errors are relative to."""
        return ("A", "diag", "B") if self.diag else ("A", "B")

    @cached_property
    def unit_roundoff(self) -> float:
        """u of the result."""
        return unit_roundoff(self.dtype, self.components)

    @property
    def sides(self) -> tuple[Side, ...]:
        """Sides with separate tiles: the left one alone if B is A."""
        return SIDES[:1] if self.same_operand else SIDES

    def side_of(self, side: Side) -> Side:
        """Return the side that holds the tiles and exponents of a side."""
        return "left" if self.same_operand else side

    @property
    def asks_for_errors(self) -> bool:
        """True if rho is bounded, and measured rounding errors decide the moduli."""
        return self.data_driven and self.rho > 0 and not self.decided_by

    @property
    def looks(self) -> bool:
        """True if the entries decide on shifts along k, or on the moduli."""
        return self.equilibrate or self.data_driven

    @property
    def same_operand(self) -> bool:
        """True if B is A, so that one encoding of a tile serves both sides."""
        return self.routine.matrices == 1 and not self.diag

    @property
    def pair_routine(self) -> Routine:
        """The routine whose pairs of rows and columns are bounded together."""
        # Bounds of (i, j) and (j, i) differ where one side is scaled.
        return ROUTINES["gemm"] if self.diag else self.routine

    def share_pairs(self, sweep: Sequence[Cell], layers: int) -> list[PairBlock]:
        """Give each layer of workers some pairs of a sweep, or a part of k of few."""
        pairs = [pair for cell in sweep for pair in self.routine.pairs(*cell)]
        if self.diag and self.routine.triangle:
            pairs = [*dict.fromkeys(x for i, j in pairs for x in ((i, j), (j, i)))]
        make = self.pair_routine.pair_block
        if len(pairs) < layers:
            return [make(sweep[0], pairs)]
        turns = ((n, (n + sum(sweep[0])) % layers) for n in range(layers))
        return [make((*sweep[0], n), pairs[first::layers]) for n, first in turns]

    @property
    def twin_order(self) -> tuple[int, ...] | None:
        """The plane of op(A) equal to each plane of op(B)^T; None unless B is A."""
        if not self.same_operand or self.native:
            return None
        if (self.op_a == "C") != (self.op_b == "C"):
            return self.system.conjugate_planes
        return tuple(range(len(self.system.planes)))

    @property
    def hermitian_product(self) -> bool:
        """True if a diagonal cell needs fewer products: ``C- = C+^T``."""
        if not (self.routine.hermitian and self.same_operand) or self.native:
            return False
        return self.system.num_hermitian_products < self.system.num_products

    def with_moduli(
        self,
        system: ResidueSystem | None,
        rho: float = 0.0,
        decided_by: str = "",
        data_driven: bool = False,
    ) -> Self:
        """Return the same with these moduli; None is the native product."""
        method = NATIVE_METHOD if system is None else system.method
        moduli = () if system is None else system.choice
        return replace(
            self,
            method=method,
            moduli=moduli,
            rho=rho,
            decided_by=decided_by,
            data_driven=data_driven,
        )

    def tile_shape(self, m: int, n: int) -> tuple[int, ...]:
        """Return the shape of a tile of C of m x n entries."""
        return (m, n) if self.components == 1 else (self.components, m, n)

    def op(self, side: Side) -> Op:
        """Return op_a or op_b."""
        return self.op_a if side == "left" else self.op_b


def load_engine(spec: Spec) -> Engine:
    """Load the engine of a spec in this process."""
    return get_engine(spec.engine)


def as_rows(block: Array, side: Side, op: Op) -> Array:
    """View a block of A as rows of op(A), or of B as rows of op(B)^T; or a stack.

    The conjugate of "C" is left to the engine.
    """
    return block if is_straight(side, op) else block.swapaxes(-1, -2)


def is_straight(side: Side, op: Op) -> bool:
    """Tell whether a matrix is stored as rows of op(A), or of op(B)^T."""
    return (op == "N") == (side == "left")


def transposes(spec: Spec) -> tuple[bool, bool]:
    """Tell which of A and B are transposed by `as_rows`."""
    return spec.op_a != "N", spec.op_b == "N"
