"""Tiles of rank-k and rank-2k updates: one triangle computed, the other mirrored.

herk, syrk: ``C_ij = alpha X_i X_j^H`` (or ^T) from one matrix. her2k, syr2k:
``C = Y + Y^H`` (or ^T) with ``Y = alpha X Z^H``, so that tile (i, j) needs Y_ij and
Y_ji. One scaling for each row of X and of Z: the common scaling of [1]_ loses accuracy
where the two differ in size.

References
----------
.. [1] P. Caday, "The 2M Multiplication Algorithm for Complex Matrices", section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..typing import Array, Uplo
from . import tasks
from .spec import ProductSpec, load_engine
from .tasks import Accumulator

Cell = tuple[int, int]


@dataclass(frozen=True)
class RankSpec:
    """A rank-k or rank-2k update, apart from the matrices.

    Attributes
    ----------
    product : ProductSpec
        Of ``alpha op(A) op(B)``: op_b is "C" or "T" where op_a is "N". Its beta is 0.
    hermitian : bool
        herk, her2k; else syrk, syr2k.
    two : bool
        her2k, syr2k.
    uplo : {"full", "lower", "upper"}
    beta : number
        Of C; real if hermitian.
    empty : bool
        Whether alpha or k is 0: beta C is all there is.
    """

    product: ProductSpec
    hermitian: bool
    two: bool
    uplo: Uplo
    beta: complex = 0
    empty: bool = False

    @property
    def halves(self) -> bool:
        """Whether a diagonal tile needs fewer products: ``C- = C+^T``."""
        if not self.hermitian or self.two or self.product.native:
            return False
        system = self.product.system
        return system.num_hermitian_products < system.num_products


@dataclass(frozen=True)
class Operand:
    """Tiles of one row of op(X) along a panel, with their exponents.

    The same tiles serve as rows of op(A) and, conjugated or not, as rows of op(B)^T.
    """

    tiles: Sequence[Array]
    exponents: Array | None


def computed_cells(count: int, uplo: Uplo) -> list[Cell]:
    """List the tiles that are computed: the triangle, diagonal included.

    Examples
    --------
    >>> computed_cells(2, "full"), computed_cells(2, "upper")
    ([(0, 0), (1, 0), (1, 1)], [(0, 0), (0, 1), (1, 1)])
    """
    cells = [(i, j) for i in range(count) for j in range(i + 1)]
    return [(j, i) for i, j in cells] if uplo == "upper" else cells


def multiply_cell(
    x: tuple[Operand, Operand],
    z: tuple[Operand, Operand] | None,
    cell: Cell,
    spec: RankSpec,
    before: tuple[Accumulator, ...] | None = None,
    triangle: Uplo = "full",
) -> tuple[Accumulator, ...]:
    """Multiply one panel of tile (i, j).

    Parameters
    ----------
    x : (Operand, Operand)
        Rows i and j of A.
    z : (Operand, Operand), optional
        Rows i and j of B, for rank-2k updates.
    cell : (int, int)
    spec : RankSpec
    before : tuple of Accumulator, optional
        Of the panels before.
    triangle : {"full", "lower", "upper"}
        What `finish_cell` will decode, where no other task has added to the tile or
        will: it may run on another device, which derives products in its own way.

    Returns
    -------
    tuple of Accumulator
        Y_ij, and Y_ji for off-diagonal tiles of rank-2k updates.
    """
    diagonal = cell[0] == cell[1]
    pairs = [(x[0], x[1])] if z is None else [(x[0], z[1])]
    if z is not None and not diagonal:
        pairs.append((x[1], z[0]))
    earlier = before if before is not None else (None,) * len(pairs)
    return tuple(
        tasks.multiply_panel(
            left.tiles,
            right.tiles,
            left.exponents,
            right.exponents,
            spec.product,
            accumulator,
            hermitian=diagonal and spec.halves,
            twin=z is None,
            triangle=triangle,
        )
        for (left, right), accumulator in zip(pairs, earlier, strict=True)
    )


def wanted_triangle(cell: Cell, spec: RankSpec) -> Uplo:
    """Return the triangle that is decoded of tile (i, j)."""
    # The mirror image of a rank-2k update's product needs all of it.
    if cell[0] != cell[1] or spec.two:
        return "full"
    return "upper" if spec.uplo == "upper" else "lower"


def finish_cell(
    accumulators: tuple[Accumulator, ...],
    x: tuple[Operand, Operand],
    z: tuple[Operand, Operand] | None,
    cell: Cell,
    spec: RankSpec,
    c: Array | None = None,
) -> Array:
    """Decode tile (i, j), add beta C, and close a diagonal tile."""
    others = x if z is None else z
    # Beside one product beta C is added before the rounding, as gemm does.
    first = spec.product if spec.two else replace(spec.product, beta=spec.beta)
    exponents = x[0].exponents, others[1].exponents
    diagonal = cell[0] == cell[1]
    wanted = wanted_triangle(cell, spec)
    out = tasks.decode_tile(accumulators[0], *exponents, first, c, wanted)
    if spec.two:
        engine, y_ji = load_engine(spec.product), out
        if len(accumulators) == 2:
            exponents = x[1].exponents, others[0].exponents
            y_ji = tasks.decode_tile(accumulators[1], *exponents, spec.product)
        dtype = spec.product.dtype
        out = engine.scale_and_add(out, 1, 1, mirror_tile(y_ji, spec), dtype)
        if spec.beta != 0:
            out = engine.scale_and_add(out, 1, spec.beta, c, dtype)
    return close_diagonal(out, spec) if diagonal else out


def scale_cell(c: Array, cell: Cell, spec: RankSpec) -> Array:
    """Return tile (i, j) of beta C, the whole result where alpha or k is 0."""
    engine, product = load_engine(spec.product), spec.product
    out = engine.scale_and_add(None, 0, spec.beta, c, product.dtype)
    return close_diagonal(out, spec) if cell[0] == cell[1] else out


def mirror_tile(tile: Array, spec: RankSpec) -> Array:
    """Conjugate-transpose (or transpose) a tile."""
    return load_engine(spec.product).mirror_tile(tile, conjugate=spec.hermitian)


def close_diagonal(tile: Array, spec: RankSpec) -> Array:
    """Mirror the computed triangle of a diagonal tile, or clear the other one."""
    return load_engine(spec.product).close_diagonal(
        tile, conjugate=spec.hermitian, uplo=spec.uplo
    )
