"""Products of programs that know nothing of this package, inside a block."""

from .block import use

__all__ = ["use"]
