"""Engines: one contract, and `get_engine` to choose who fulfils it."""

from .protocol import Encoded, Engine
from .registry import ENGINES, get_engine

__all__ = ["ENGINES", "Encoded", "Engine", "get_engine"]
