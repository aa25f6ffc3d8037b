"""Accuracy of a product: what was asked for, found, chosen, and what bounds it."""

import json
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from ..moduli import NONFINITE_ROW, ZERO_ROW
from ..moduli.accuracy import componentwise_bound, error_bound, unit_roundoff
from ..tiles.interpreter import Findings
from ..tiles.spec import SIDES, Spec
from .show import Rows, as_text, name_count, round_up


@dataclass(frozen=True, repr=False)
class Explanation:
    """Accuracy of a product, and its reasons; print it to see both.

    Attributes
    ----------
    routine, asked : str
        Name of the routine, and the accuracy, or method "auto", that was requested.
    method : str
        Method of the moduli; "blas" if all moduli together are too few for the data;
        the bits then depend on tiles and machine.
    num_moduli, num_products, num_diagonal_products : int
        Number of moduli; number of int8 GEMMs for each product of tiles; their number
        for a diagonal tile of herk and the like, which may take half as many.
    modulus_bits : float
        Binary logarithm of the product of the moduli.
    error_bound : float
        Bound on ``|C - C_exact|_ij`` for alpha = 1, beta = 0, without under- and
        overflow, relative to `relative_to`; 0 for an exact product in doubles.
    relative_to : str
        ``"(|A| |B|)_ij"`` or ``"||a_i|| ||b_j||"``, with a factor for the diagonal
        between both if there is one; with equilibration, the norms of the equilibrated
        matrices. For an exact product ``"|C|_ij"``.
    rho : float
        Bound of ``||a_i|| ||b_j|| / (|A| |B|)_ij`` over all i and j with a nonzero
        term; 0 if the data were not checked.
    decided_by : str
        Source of the bound of rho: "sums" of rows and of columns; "errors" if their
        rounding errors were measured as well; "octaves" if octaves of entries were
        counted; "pairs" if octaves were multiplied; "beyond" if rho exceeds what all
        moduli reach, so that NumPy or CuPy multiplies; or empty.
    equilibrated : int
        Largest number of bits by which columns of op(A) were scaled along k.
    exponents : tuple
        Least and largest binary exponents of the rows of op(A), and of the columns of
        op(B); empty if the data were not checked.
    nonfinite : tuple of int
        Numbers of rows of op(A) and of columns of op(B) with a NaN or an Inf.
    choice : str
        Choice of ``method="auto"`` and its reason; empty for other methods.

    See Also
    --------
    explain : Returns an explanation.

    Examples
    --------
    >>> import twom_dist as td
    >>> found = td.explain(td.herk, (300, 200), accuracy="normwise")
    >>> found.num_moduli, found.num_products, found.relative_to
    (15, 30, '||a_i|| ||b_j||')
    """

    routine: str
    asked: str
    method: str
    num_moduli: int
    num_products: int
    num_diagonal_products: int
    modulus_bits: float
    error_bound: float
    relative_to: str
    rho: float = 0.0
    decided_by: str = ""
    equilibrated: int = 0
    exponents: tuple[tuple[int, int], ...] = ()
    nonfinite: tuple[int, ...] = ()
    choice: str = ""

    def to_json(self) -> str:
        """Return all attributes as one line of JSON."""
        return json.dumps({x.name: getattr(self, x.name) for x in fields(self)})

    def __repr__(self) -> str:
        return as_text(self._list_rows())

    def _list_rows(self) -> Rows:
        rows = [
            ("routine", self.routine),
            ("requested", self.asked),
            ("method", self._show_moduli()),
            ("error bound", str(ErrorBound(self.error_bound, self.relative_to))),
        ]
        if self.choice:
            rows.insert(2, ("choice", self.choice))
        if self.rho:
            rows.append(("rho", self._show_rho()))
        scaled = f"by up to 2^{self.equilibrated}" if self.equilibrated else "no"
        rows.append(("equilibrated", scaled))
        if self.exponents:
            (a, b), (rows_a, columns_b) = self.exponents, self.nonfinite
            text = "2^{} to 2^{} in rows of op(A), 2^{} to 2^{} in columns of op(B)"
            rows.append(("largest entries", text.format(*a, *b)))
            if rows_a or columns_b:
                text = f"{rows_a} rows of op(A), {columns_b} columns of op(B)"
                rows.append(("not finite", text))
        return rows

    def _show_rho(self) -> str:
        what = "||a_i|| ||b_j|| / (|A| |B|)_ij"
        if self.decided_by == "beyond":
            return f"above {self.rho:.3g}, more than all moduli reach: {what}"
        ways = {
            "sums": "sums of rows",
            "errors": "sums of rows and of their rounding errors",
            "octaves": "octaves of rows",
            "pairs": "octaves of every row and column",
        }
        most = f"at most {round_up(self.rho, 3):.3g} by {ways[self.decided_by]}"
        return f"{most}: {what}"

    def _show_moduli(self) -> str:
        if not self.num_moduli:
            depends = ", whose last bits depend on the BLAS and on chunks"
            return "the native product" + (depends if self.decided_by else "")
        moduli = name_count(self.num_moduli, "modulus", "moduli")
        products = name_count(self.num_products, "int8 GEMM")
        products = f"{products} for each product of tiles"
        if self.num_diagonal_products < self.num_products:
            products += f", {self.num_diagonal_products} on the diagonal"
        taken = f"{self.method}, {moduli}, {self.modulus_bits:.1f} bits, {products}"
        # The entries decide about such a bound, and have not been analysed.
        expected = self.relative_to.startswith("(|A|") and not self.decided_by
        if self.error_bound == 0 or not expected:
            return taken
        return f"{taken}, expected: the data decide"


def add_findings(known: Explanation, found: Findings) -> Explanation:
    """Add to an explanation what was found in the matrices."""
    sides: list[Any] = []
    if found.measured is not None:
        left, right = (
            [x.largest for (own, _), x in found.measured.items() if own == side]
            for side in SIDES
        )
        # In A A^H both sides are the same rows.
        sides = [np.concatenate(left), np.concatenate(right or left)]
    bits = (int(abs(e).max(initial=0)) for e in found.shifts or ())
    return replace(
        known,
        equilibrated=max(bits, default=0),
        exponents=tuple(map(_range, sides)),
        nonfinite=tuple(int((e >= NONFINITE_ROW).sum()) for e in sides),
    )


def _range(exponents: Any) -> tuple[int, int]:
    """Return the least and the largest exponent of finite, nonzero rows."""
    known = exponents[(exponents != ZERO_ROW) & (exponents < NONFINITE_ROW)]
    return (int(known.min()), int(known.max())) if known.size else (0, 0)


def explain_spec(spec: Spec, data_driven: bool, asked: str) -> Explanation:
    """Explain what a spec says, before the data are checked.

    `data_driven`: whether these choose the moduli.
    """
    system = None if spec.native else spec.system
    bound, relative_to = bound_error(spec, data_driven)
    num_products = on_diagonal = 0 if system is None else system.num_products
    if system is not None and spec.hermitian_product:
        on_diagonal = system.num_hermitian_products
    if spec.routine.sums and not spec.exact:
        relative_to += " of each of the two products"
    if spec.components == 1 and 0 < bound < 2.5 * unit_roundoff(spec.dtype):
        asked += f", before rounding to {np.dtype(spec.dtype).name}"
    return Explanation(
        routine=spec.routine.name,
        asked=asked,
        method=spec.method,
        num_moduli=len(spec.moduli),
        num_products=num_products,
        num_diagonal_products=on_diagonal,
        modulus_bits=0.0 if system is None else system.modulus_bits,
        error_bound=bound,
        relative_to=relative_to,
        rho=spec.rho,
        decided_by=spec.decided_by,
    )


_EXACT = "|C|_ij"  # what errors of exact products are relative to


class ErrorBound(NamedTuple):
    """A bound on ``|C - C_exact|_ij`` for alpha = 1, beta = 0."""

    value: float
    relative_to: str

    def __str__(self) -> str:
        shown = f"{round_up(self.value, 2):.1e} {self.relative_to}"
        if self.relative_to != _EXACT:
            return shown
        if self.value:
            return f"{shown}: exact sums, rounded once"
        return "0 for alpha = 1: integers, multiplied exactly"


def bound_error(spec: Spec, data_driven: bool) -> ErrorBound:
    """Bound the error of a product; `data_driven`: whether its moduli are the entries'.

    Where entries of A are rounded before, by g, and b bounds the product that is left,
    it is ``b (1 + g) + g``.
    """
    system = None if spec.native else spec.system
    bound = error_bound(system, spec.k, spec.dtype, spec.components)
    if data_driven and system is not None:
        bound = componentwise_bound(spec.k, spec.unit_roundoff)
    if spec.exact:
        # Sums are exact; a result in single precision rounds them.
        double = np.finfo(spec.dtype).bits == 64
        return ErrorBound(0.0 if double else spec.unit_roundoff, _EXACT)
    rows = data_driven or system is None
    relative_to = f"({' '.join(f'|{x}|' for x in spec.factors)})_ij"
    if not rows:
        relative_to = f"||{' '.join(['a_i', *spec.factors[1:-1]])}|| ||b_j||"
    rounding = spec.input_rounding
    return ErrorBound(bound * (1 + rounding) + rounding, relative_to)
