"""Engines by name: loaded when first asked for."""

from functools import cache
from importlib import import_module

from ..errors import EngineUnavailableError
from .contract import Engine

ENGINES = ("auto", "cpu", "cuda", "reference")


@cache
def get_engine(name: str = "cpu") -> Engine:
    """Load an engine by name; imports happen here, never at ``import twom_dist``.

    Raises
    ------
    EngineUnavailableError
        If its packages or its hardware are missing; the text names the remedy.
    """
    if name == "cuda":
        raise EngineUnavailableError(
            "engine='cuda' is not part of this version; use engine='cpu' or 'reference'"
        )
    package = import_module(f"{__package__}.{name}.engine")
    engine: Engine = package.make_engine()
    return engine
