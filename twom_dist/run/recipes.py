"""Recipes: a product of one tile, posed and planned once for arrays like these.

Kept by all that a call says, but for where its arrays lie. Where the data choose the
moduli, a few numbers decide first.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple

from ..auto.choose import state as crossovers
from ..config import setting
from ..errors import EngineUnavailableError, MemoryLimitError
from ..kernels.device_memory import workspace_share
from ..kernels.family import family_of
from ..kernels.registry import engine_of
from ..problem.call import Call, Terms
from ..problem.matrices import check_place, set_apart
from ..problem.problem import Problem, of_arrays
from ..problem.scalars import as_key
from ..tiles.spec import Spec, engine_named, turned
from ..typing import Array
from . import eager
from .compute import compute
from .weighed import WeighedRecipe

# Shapes in use at a time are few.
_MOST = 256


class Recipe(NamedTuple):
    """A product without its arrays, and the function that multiplies them."""

    spec: Spec
    turned: tuple[bool, bool]
    adds: bool
    multiply: Callable[..., Array]

    @classmethod
    def of(cls, problem: Problem) -> "Recipe | None":
        """Plan a problem of given moduli; None where arrays decide about anything."""
        spec, multiply = problem.spec, eager.find_fused(problem)
        if multiply is None:
            return None
        return cls(spec, turned(spec), problem.c is not None, multiply)

    def run(
        self,
        a: Array,
        b: Array | None,
        c: Array | None,
        out: Array | None,
        pose: Callable[[], Problem],
    ) -> Any:
        """Compute the product of arrays of the same shapes and dtypes."""
        (turn_a, turn_b), b = self.turned, a if b is None else b
        c = c if self.adds else None
        if out is not None:
            # Its shape, strides and dtype are those of the first call.
            check_place(out, [t for t in (a, b, c) if t is not None])
        x, y = a.T if turn_a else a, b.T if turn_b else b
        return self.multiply(x, y, c=c, out=out)


# What plans of such products read.
_SETTINGS = "workspace-bytes", "winograd-levels", "largest-tile"
_recipes: dict[Hashable, Recipe | WeighedRecipe] = {}


def compute_arrays(call: Call) -> Any:
    """Compute a routine of arrays, or of dask arrays, as it was computed before."""
    terms, A, B, C, out = call[:5]
    alpha, beta = as_key(terms.alpha, "alpha"), as_key(terms.beta, "beta")
    if alpha is not terms.alpha or beta is not terms.beta:
        terms = terms._replace(alpha=alpha, beta=beta)
        call = call._replace(terms=terms)
    if C is not None and out is not None and beta != 0:
        C = set_apart(C, out)
        call = call._replace(C=C)
    key = None if call.diag is not None else _find_key(terms, A, B, C, out)
    try:
        recipe = _recipes.get(key)
    except TypeError:
        key = recipe = None  # a scalar that is an array
    if key is None:
        return compute(of_arrays(call))
    pose = partial(of_arrays, call)
    if recipe is None:
        posed = pose()
        recipe = Recipe.of(posed) or WeighedRecipe.of(posed)
        if recipe is None:
            return compute(posed)
        if len(_recipes) >= _MOST:
            _recipes.clear()
        _recipes[key] = recipe
    try:
        return recipe.run(A, B, C, out, pose)
    except (MemoryLimitError, MemoryError):
        # Planned anew, in less memory if need be.
        return compute(pose())


def _find_key(terms: Terms, *arrays: Any) -> Hashable:
    """Return all that a recipe depends on; None where there can be none."""
    choice, kind, out = terms.choice, type(arrays[0]), arrays[-1]
    if choice.pairs or workspace_share() < 1:
        return None
    if kind.__name__ != "ndarray":
        return None
    outlines: list[Hashable] = []
    for x in arrays:
        if x is None:
            outlines.append(None)
        elif type(x) is kind:
            outlines.append((x.shape, x.dtype))
        else:
            return None
    name, where = engine_of("auto", family_of(arrays[0])), None
    if name == "cuda":
        try:
            engine = engine_named(name)
        except EngineUnavailableError:
            return None  # said where the problem is posed
        where = engine, engine.variant()
    strides = None if out is None else out.strides
    chosen = crossovers() if choice.by_size else None
    return terms, kind, *outlines, strides, where, chosen, *map(setting, _SETTINGS)
