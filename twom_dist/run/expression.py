"""The product as a node of dask's array expressions (`array.query-planning`).

The only module that touches that private interface; imported only when it is in use.
"""

from typing import Any

from dask.array._array_expr._collection import new_collection
from dask.array._array_expr._expr import ArrayExpr

from ..tiles.blocks import result_meta
from ..tiles.graph import Operands, build_layer, result_name
from ..tiles.grid import Chunks, Grid
from ..tiles.spec import Spec


class TwomProduct(ArrayExpr):
    """``alpha op(A) op(B) + beta C`` of array expressions."""

    _parameters = ("a", "b", "c_in", "grid", "spec", "diag")

    @property
    def _name(self) -> str:
        return result_name(self.spec, self.deterministic_token)

    @property
    def _meta(self) -> Any:
        return result_meta(self.a._meta, self.spec)

    @property
    def chunks(self) -> tuple[Chunks, Chunks]:
        """Chunks of the result."""
        return self.grid.m, self.grid.n

    def _layer(self) -> dict[Any, Any]:
        c = self.c_in
        own = getattr(self.diag, "_name", self.diag)
        names = self.a._name, self.b._name, None if c is None else c._name
        operands = Operands(*names, own)
        return dict(build_layer(self._name, operands, self.grid, self.spec))


def product_expression(
    a: Any, b: Any, c: Any, grid: Grid, spec: Spec, diag: Any
) -> Any:
    """Make the lazy product of arrays that carry expressions."""
    c_expression = None if c is None else c.expr
    own = getattr(diag, "expr", diag)
    return new_collection(TwomProduct(a.expr, b.expr, c_expression, grid, spec, own))
