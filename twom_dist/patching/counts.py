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
        self._counts: Counter[tuple[Fate, str]] = Counter()

    def add(self, fate: Fate, reason: str = "") -> None:
        """Count a product."""
        with self._lock:
            self._counts[fate, reason] += 1

    @property
    def ours(self) -> int:
        """Products that this package multiplies."""
        return self._sum("ours")

    @property
    def native(self) -> int:
        """Products that it has the BLAS multiply."""
        return self._sum("native")

    @property
    def left(self) -> int:
        """Products that it does not take."""
        return self._sum("left")

    def _sum(self, fate: Fate) -> int:
        with self._lock:
            return sum(count for (x, _), count in self._counts.items() if x == fate)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        word = "product" if self.ours == 1 else "products"
        yield f"{self.ours} {word} ours, {self.native} native, {self.left} left"
        with self._lock:
            told = [(x, n) for (_, x), n in self._counts.most_common() if x]
        if not self._counts:
            yield f"  {_UNSEEN}"
        for reason, count in told[:_MOST]:
            yield f"  {count} {reason}"
        if told[_MOST:]:
            yield f"  and {len(told) - _MOST} more reasons"
