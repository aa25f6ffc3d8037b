"""Engines by name: loaded when first asked for."""

from functools import cache
from importlib import import_module

from .contract import Engine

ENGINES = ("auto", "cpu", "reference")


@cache
def get_engine(name: str = "cpu") -> Engine:
    """Load an engine by name; imports happen here, never at ``import twom_dist``."""
    package = import_module(f"{__package__}.{name}.engine")
    engine: Engine = package.make_engine()
    return engine


def engine_of(name: str) -> str:
    """Resolve "auto" to the engine that fits this machine."""
    if name != "auto":
        get_engine(name)
        return name
    return "cpu"
