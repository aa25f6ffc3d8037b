"""Blocks in which this package computes products, and their counts; see decision 40."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, Literal, Self, Unpack

from ..auto.choose import listen
from ..contractions.intercept import intercept
from ..errors import TwomError
from ..moduli.accuracy import AUTO_METHOD, NATIVE_METHOD
from ..problem.arguments import checked
from ..problem.choice import Choice
from ..problem.matrices import is_dask
from ..problem.options import OptionsDict, show_options
from ..problem.problem import check_possible
from ..typing import as_flag
from .calls import Read, check_dtype, check_operands, is_contracted
from .patches import patch

Fate = Literal["ours", "native", "left"]

_MOST = 10  # reasons that are printed; an error may name shapes, which are many
# Threads that the program starts have no block; autoray keeps what it has looked up.
_UNSEEN = (
    "no product was seen. Those of NumPy arrays alone are not seen (call td.matmul), "
    "nor those in threads that the program starts (have them run "
    "contextvars.copy_context().run), nor those by functions that were imported or "
    "looked up before, as autoray, cotengra and quimb do (give these "
    "backend='twom_dist')."
)


class ProductCounts:
    """Counts of the products in a block; print it for the reasons.

    Attributes
    ----------
    ours : int
        Products that this package has multiplied, or made the graph of.
    native : int
        Products that the options leave to BLAS.
    left : int
        Products that this package does not take, which were left to their library.
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


@dataclass(eq=False)
class _Entry:
    """A block that is entered in this context, and the one around it."""

    options: OptionsDict
    native: bool
    strict: bool
    outer: Self | None
    seen: ProductCounts = field(default_factory=ProductCounts)
    # A task that a block has started has a copy of its context, and may outlive it.
    is_open: bool = True


_ALL_THE_SAME = (
    "Give the call method='2m' for int8 all the same, or set twom-dist.blas-below to 0."
)
_entered: ContextVar[_Entry | None] = ContextVar("twom-dist-use", default=None)


@checked
@partial(show_options, method=AUTO_METHOD)
def use(
    *, strict: bool = False, **options: Unpack[OptionsDict]
) -> AbstractContextManager[ProductCounts]:
    """Run dask's and CuPy's matrix products through this package, in a block.

    Inside the block, this package computes ``@``, ``matmul``, ``dot``, ``tensordot``
    and ``einsum`` of dask and CuPy arrays. NumPy's arrays have no such hook: call
    `matmul`.

    Parameters
    ----------
    strict : bool, optional
        Raise an error for products that this package cannot compute, such as products
        of integers. Default: these products are left to the library of the arrays.
    **options : optional
        As in `matmul`: by default, int8 is used only where it was measured to be
        faster; with method="2m" always.

    Returns
    -------
    context manager
        It is a decorator, too. The target of ``with`` counts products: ``ours``;
        ``native``, which the method leaves to BLAS; ``left``, which this package cannot
        compute. Print the target for the reasons.

    See Also
    --------
    matmul, tensordot, einsum : The products, to be called by name.
    numpy.matmul : One of a namespace with NumPy's names, for code that takes one.

    Notes
    -----
    What counts is where a product is created: this package computes a dask array
    created inside the block, even after its end; dask computes an array created
    outside. Of nested blocks the inner one counts. A block applies to its context
    (`contextvars`), with asyncio's tasks and dask's threads that are started inside,
    but not to other threads or workers. Functions imported by name before the block
    (``from dask.array import matmul``) or looked up by autoray, and products inside
    CuPy's own functions, are not covered. Calls of this package's own functions are
    counted, too, and keep their options.

    Examples
    --------
    >>> import dask.array as da, twom_dist as td
    >>> x = da.ones((40, 30), chunks=20)
    >>> with td.use(method="2m") as used:
    ...     y = x @ x.T
    >>> y
    dask.array<twom-update, shape=(40, 40), dtype=float64, chunksize=(20, 20), ...>
    >>> print(used)
    1 product ours, 0 native, 0 left
    """
    options = OptionsDict(method=AUTO_METHOD) | options
    choice = Choice.of(**options)
    check_possible(choice)
    return _enter(options, choice.method == NATIVE_METHOD, as_flag("strict", strict))


@contextmanager
def _enter(options: OptionsDict, native: bool, strict: bool) -> Iterator[ProductCounts]:
    block = _Entry(options, native, strict, _entered.get())
    with patch(_answer), intercept(_intercept):
        _entered.set(block)
        try:
            yield block.seen
        finally:
            block.is_open = False
            # In another context, or with another block inside, it is not the last one.
            _entered.set(_current())


def _current() -> _Entry | None:
    block = _entered.get()
    while block is not None and not block.is_open:
        block = block.outer
    return block


@contextmanager
def _outside() -> Iterator[_Entry | None]:
    """Leave the block of this context: calls of either side's own are not counted."""
    block = _current()
    token = _entered.set(None)
    try:
        yield block
    finally:
        _entered.reset(token)


def _answer(
    name: str, read: Read, original: Callable[..., Any], /, *args: Any, **more: Any
) -> Any:
    with _outside() as block:
        if block is None:
            return original(*args, **more)
        try:
            ours = read(args, more)
            if ours is None:
                return original(*args, **more)
            check_operands(ours.operands)
            with listen() as answers:
                found = ours.compute(block.options)
        except TwomError as error:
            if block.strict:
                raise
            # Before the library, which may refuse it, too, as its error then shows.
            block.seen.add("left", f"left: {name}, since {error}")
            return original(*args, **more)
        native = _count(block.seen, answers, block.native)
        if native and any(map(is_dask, ours.operands)):
            # The same product, but by dask's own graph, for networks as well.
            return original(*args, **more)
        return found


def _intercept(
    function: Callable[..., Any], args: tuple[Any, ...], more: Mapping[str, Any]
) -> Any:
    """Compute a call of our own, by its own options, and count it."""
    with _outside() as block:
        if block is None:
            return function(*args, **more)
        with listen() as answers:
            found = function(*args, **more)
    name = function.__name__
    if is_contracted(name, args, more):
        try:
            check_dtype(getattr(found, "dtype", None))
            _count(block.seen, answers, more.get("method") == NATIVE_METHOD)
        except TwomError as error:
            block.seen.add("left", f"left: {name}, since {error}")
    return found


def _count(seen: ProductCounts, answers: Sequence[str], native: bool) -> bool:
    """Count a product that we have computed, given why its parts are native.

    Returns whether all of it is.
    """
    if native:
        seen.add("native", "native, since method='blas' was given")
    elif answers and all(answers):
        native = True
        seen.add("native", f"{answers[0]}. {_ALL_THE_SAME}")
    else:
        seen.add("ours")
    return native
