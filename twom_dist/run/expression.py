"""The product as a node of dask's array expressions (`array.query-planning`).

The only module that touches that private interface; imported only when it is in use.
"""

from typing import Any

from dask.array._array_expr._collection import new_collection
from dask.array._array_expr._expr import ArrayExpr

from ..tiles.blocks import result_meta
from ..tiles.dask.graph import Operands, build_layer, result_name
from ..tiles.grid import Chunks, Grid
from ..tiles.spec import Spec

# An expression has attributes of its own.
_OPERANDS = tuple(f"{x}_in" for x in Operands._fields)


class TwomProduct(ArrayExpr):
    """``alpha op(A) op(B) + beta C`` of array expressions."""

    _parameters = (*_OPERANDS, "grid", "spec")

    @property
    def _name(self) -> str:
        return result_name(self.spec, self.deterministic_token)

    @property
    def _meta(self) -> Any:
        return result_meta(self.a_in._meta, self.spec)

    @property
    def chunks(self) -> tuple[Chunks, Chunks]:
        """Chunks of the result."""
        return self.grid.m, self.grid.n

    def _layer(self) -> dict[Any, Any]:
        given = (getattr(self, x) for x in _OPERANDS)
        operands = Operands(*(getattr(x, "_name", x) for x in given))
        return dict(build_layer(self._name, operands, self.grid, self.spec))


def product_expression(operands: Operands, grid: Grid, spec: Spec) -> Any:
    """Make the lazy product of arrays that carry expressions."""
    given = (getattr(x, "expr", x) for x in operands)
    return new_collection(TwomProduct(*given, grid, spec))
