"""Guesses: a small product is launched while the host waits for what decides about it.

Products of like matrices mostly take like moduli. If others come out, the product is
launched again: the bits are those of the moduli that were decided.
"""

from collections.abc import Callable, Hashable
from contextlib import suppress

from ..errors import MemoryLimitError
from ..moduli import ResidueSystem
from ..tiles.interpreter import Found
from ..typing import Array

# Larger products take so long that the wait is little beside them.
BELOW = 2048
# Kinds of products that are remembered.
_MOST = 256

_last: dict[Hashable, ResidueSystem] = {}


class Guess:
    """One product, by the moduli that the last one of its kind took.

    Attributes
    ----------
    kind : hashable
        What products have in common whose moduli may be alike.
    """

    def __init__(
        self, kind: Hashable, multiply: Callable[[ResidueSystem], Array | None]
    ) -> None:
        self.kind, self._multiply = kind, multiply
        self._system: ResidueSystem | None = None
        self._result: Array | None = None

    def launch(self) -> None:
        """Launch the product, if there was one of this kind."""
        system = _last.get(self.kind)
        if system is None:
            return
        # Others may take less memory.
        with suppress(MemoryLimitError, MemoryError):
            self._result, self._system = self._multiply(system), system

    def confirm(self, found: Found) -> Array | None:
        """Return the product if it is the one decided on, and remember its moduli."""
        spec = found.spec
        if spec.native:
            return None
        if len(_last) >= _MOST:
            _last.clear()
        _last[self.kind] = spec.system
        own = found.shifts is None and spec.system == self._system
        return self._result if own else None
