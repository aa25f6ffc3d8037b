"""Engines: one protocol, and `get_engine` to choose an implementation."""

from .protocol import Encoded, Engine
from .registry import ENGINES, get_engine

__all__ = ["ENGINES", "Encoded", "Engine", "get_engine"]
