"""Engines by name: loaded when first asked for."""

from functools import cache
from importlib import import_module
from typing import Any

from ..errors import EngineUnavailableError, PlanError
from .family import Family
from .protocol import Engine

ENGINES = ("auto", "cpu", "cuda", "reference")
_OF_FAMILY = {"numpy": "cpu", "cupy": "cuda"}


@cache
def get_engine(name: str = "cpu") -> Engine:
    """Load an engine by name; imports happen here, never at ``import twom_dist``."""
    engine: Engine = load_engine(name).make_engine()
    return engine


def load_engine(name: str) -> Any:
    """Import the package of an engine, or say what keeps it from being imported."""
    try:
        return import_module(f"{__package__}.{name}.engine")
    except RuntimeError as error:
        # Numba's, of functions that are to be cached, without a type of its own.
        if "no locator available" not in str(error):
            raise
        problem = f"engine {name!r} has no folder to keep what Numba compiles"
        remedy = "Set the environment variable NUMBA_CACHE_DIR to a writable folder"
        raise EngineUnavailableError(problem, remedy, "numba-cache") from error


def engine_of(name: str, family: Family = "numpy") -> str:
    """Resolve "auto" to the engine of the blocks' family, and refuse another one.

    The CUDA engine is not loaded: a client without a GPU may build graphs for it.
    """
    own = _OF_FAMILY[family]
    if name == "auto" or name == own == "cuda":
        return own
    if family == "cupy" or name == "cuda":
        move = "asnumpy" if family == "cupy" else "asarray"
        problem = f"engine={name!r} does not multiply {family} arrays"
        remedy = f"Use engine={own!r}, or move the arrays with cupy.{move}"
        raise PlanError(problem, remedy, "engine-family")
    get_engine(name)
    return name
