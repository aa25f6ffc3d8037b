"""Products of programs that do not call this package, inside a block."""

from .block import use

__all__ = ["use"]
