"""Methods that an engine need not have if its device is the host."""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from typing import Any, Protocol

from ..moduli import ResidueSystem
from ..typing import Array
from .limits import Shape
from .operands import Encoded


class Defaults(Protocol):
    """Part of the `Engine` protocol that holds unless an engine says otherwise."""

    # Whether the host waits for answers, so that one wait is worth more stages.
    waits: bool = False
    # Whether `out` may be a part of a larger array, whose rows lie apart.
    writes_parts: bool = True

    def task(self) -> AbstractContextManager[Any]:
        """Scope of one dask task: its share of threads; device work done on exit."""
        return nullcontext()

    def publish(self, encoded: Encoded) -> Encoded:
        """Return an encoded tile that other threads may take from here on."""
        return encoded

    def retain(self, encoded: Encoded) -> Encoded:
        """Return a shared tile once it is made, kept until the task has ended."""
        return encoded

    def variant(self) -> Hashable:
        """Return what limits depend on beside shapes and settings: this device."""
        return None

    def run_stack(
        self,
        compute: Callable[[slice], object],
        count: int,
        system: ResidueSystem,
        shape: Shape,
    ) -> None:
        """Call `compute` for pieces of a stack of matrices, in turn or side by side."""
        compute(slice(0, count))

    def fingerprint(self, x: Array) -> int:
        """Return a number that changes, as good as certainly, when x is refilled."""
        return int.from_bytes(blake2b(x.tobytes(), digest_size=8).digest())
