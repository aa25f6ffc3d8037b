"""Counts of the products of a block, and why some of them went elsewhere."""

from collections import Counter
from collections.abc import Iterator
from threading import Lock
from typing import Literal

Fate = Literal["ours", "native", "left"]

# Reasons that are printed; an error may name shapes, which are many.
_MOST = 10
# Threads of the program's own have no block; autoray looks a function up once in a
# process.
_UNSEEN = (
    "no product was seen. Not seen are those of NumPy arrays alone (call td.matmul), "
    "those in threads that the program starts (have them run "
    "contextvars.copy_context().run), and those by functions that were imported or "
    "looked up before, as autoray, cotengra and quimb do (give these "
    "backend='twom_dist')."
)


class ProductCounts:
    """Counts of the products in a block; printed, with a line for each reason.

    Attributes
    ----------
    ours : int
        Products that this package multiplies, or the graphs of which it has made.
    native : int
        The same, but by the BLAS, as the options of the block say.
    left : int
        Products that it does not take, which were left to their own library.
    """

    def __init__(self) -> None:
        # Tasks and threads that a block has started may count at the same time.
        self._lock = Lock()
        self.ours = self.native = self.left = 0
        self._reasons: Counter[str] = Counter()

    def add(self, fate: Fate, reason: str = "") -> None:
        """Count a product."""
        with self._lock:
            setattr(self, fate, getattr(self, fate) + 1)
            if reason:
                self._reasons[reason] += 1

    def __str__(self) -> str:
        with self._lock:
            return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        word = "product" if self.ours == 1 else "products"
        yield f"{self.ours} {word} ours, {self.native} native, {self.left} left"
        if not (self.ours or self.native or self.left):
            yield f"  {_UNSEEN}"
        for reason, count in self._reasons.most_common(_MOST):
            yield f"  {count} {reason}"
        if len(self._reasons) > _MOST:
            yield f"  and {len(self._reasons) - _MOST} more reasons"
