"""Recipes: a product of one tile, posed and planned once for arrays like these.

Kept by all that a call says, but for where its arrays lie. Only products whose moduli
are given have one: the others are planned by their data.
"""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from ..config import setting
from ..errors import MemoryLimitError
from ..kernels.family import family_of
from ..kernels.registry import engine_of
from ..kernels.room import workspace_share
from ..problem.call import Terms
from ..problem.matrices import check_place
from ..problem.problem import of_arrays
from ..problem.scalars import as_key
from ..tiles.spec import Spec, as_rows, engine_named
from ..typing import Array
from . import eager
from .client import by_workers_chip
from .compute import compute

# Shapes in use at a time are few.
_MOST = 256


class Recipe(NamedTuple):
    """A product without its arrays, and the function that multiplies them."""

    spec: Spec
    adds: bool
    multiply: Callable[..., Array]

    def run(self, a: Array, b: Array | None, c: Array | None, out: Array | None) -> Any:
        """Compute the product of arrays of the same shapes and dtypes."""
        spec, b, c = self.spec, a if b is None else b, c if self.adds else None
        if out is not None:
            # Its shape, strides and dtype are those of the first call.
            check_place(out, [t for t in (a, b, c) if t is not None])
        x = as_rows(a, "left", spec.op_a)
        return self.multiply(x, as_rows(b, "right", spec.op_b), c=c, out=out)


_NONE = type(None)
# What plans of such products read.
_SETTINGS = "workspace-bytes", "winograd-levels", "largest-tile"
_recipes: dict[Hashable, Recipe] = {}


def compute_arrays(
    terms: Terms,
    A: Any,
    B: Any = None,
    C: Any = None,
    out: Any = None,
    diag: Any = None,
) -> Any:
    """Compute a routine of arrays, or of dask arrays, as it was computed before."""
    alpha, beta = as_key(terms.alpha, "alpha"), as_key(terms.beta, "beta")
    if alpha is not terms.alpha or beta is not terms.beta:
        terms = terms._replace(alpha=alpha, beta=beta)
    key = None if diag is not None else _find_key(terms, A, B, C, out)
    try:
        recipe = _recipes.get(key)
    except TypeError:
        key = recipe = None  # a scalar that is an array
    if key is None:
        return compute(of_arrays(by_workers_chip(terms, A, B, C), A, B, C, out, diag))
    if recipe is None:
        posed = of_arrays(terms, A, B, C, out)
        multiply = eager.find_at_once(posed)
        if multiply is None:
            return compute(posed)
        if len(_recipes) >= _MOST:
            _recipes.clear()
        adds = posed.c is not None
        recipe = Recipe(posed.spec, adds, multiply)
        _recipes[key] = recipe
    try:
        return recipe.run(A, B, C, out)
    except (MemoryLimitError, MemoryError):
        # Planned anew, in less memory if need be.
        return compute(of_arrays(terms, A, B, C, out))


def _find_key(terms: Terms, *arrays: Any) -> Hashable:
    """Return all that a recipe depends on; None where there can be none."""
    choice, kind, out = terms.choice, type(arrays[0]), arrays[-1]
    if choice.by_entries or choice.pairs or workspace_share() < 1:
        return None
    if kind.__name__ != "ndarray" or not {kind, _NONE}.issuperset(map(type, arrays)):
        return None
    name, where = engine_of("auto", family_of(arrays[0])), None
    if name == "cuda":
        engine = engine_named(name)
        where = engine, engine.variant()
    outlines = [None if x is None else (x.shape, x.dtype) for x in arrays]
    strides = None if out is None else out.strides
    return terms, kind, *outlines, strides, where, *map(setting, _SETTINGS)
