"""The blocks in which products are ours; see decision 40."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Self

from ..crossover.choose import listen
from ..errors import TwomError
from ..moduli.accuracy import NATIVE_METHOD
from ..problem.choice import Choice
from ..typing import Accuracy, EngineName, Method, as_flag
from .calls import Read, check_operands
from .places import replaced
from .tally import Tally


@dataclass
class _Entry:
    """A block that is entered in this context, and the one around it."""

    options: Mapping[str, Any]
    native: bool
    strict: bool
    outer: Self | None
    seen: Tally = field(default_factory=Tally)
    # A task that a block has started has a copy of its context, and may outlive it.
    is_open: bool = True


_entered: ContextVar[_Entry | None] = ContextVar("twom-dist-use", default=None)


@contextmanager
def use(
    *,
    accuracy: Accuracy | float | None = None,
    num_moduli: int | None = None,
    engine: EngineName = "auto",
    equilibrate: bool | None = None,
    method: Method = "auto",
    strict: bool = False,
) -> Iterator[Tally]:
    """Multiply what a program multiplies with dask or CuPy, in a block or a function.

    Taken are ``@``, ``matmul``, ``dot``, ``tensordot`` and ``einsum`` of dask.array and
    of CuPy (if it is imported), the methods ``dot``, and NumPy's functions of these
    names where they are given such arrays. They have the bits of `matmul`, `tensordot`
    and `einsum` of this package. NumPy's own arrays have no such hook.

    Parameters
    ----------
    accuracy, num_moduli, engine, equilibrate : optional
        As in `gemm`.
    method : {"auto", "2m", "3m", "4m", "hybrid", "eisenstein", "blas"}
        As in `matmul`: by default products are native where that is faster, or nothing
        was measured.
    strict : bool
        Whether to raise our error for a product that this package does not take, such
        as one of integers. Default: it is left to its library.

    Yields
    ------
    tally
        Counts of products so far: ``ours``; ``native``, which are ours as well, but
        which `method` leaves to the BLAS; ``left``. Printed, it gives the reasons.

    Raises
    ------
    ArgumentError, PlanError, AccuracyError
        For options that do not exist or exclude each other, and for products if
        `strict`.

    Notes
    -----
    What counts is where a product is asked for: a dask array made inside stays ours
    wherever it is computed, and one made outside stays dask's. Blocks belong to a
    context, as `contextvars` have it: other threads and tasks of asyncio have their
    own. The inner one of two counts. Functions of dask.array are replaced while a block
    is open anywhere; a name that was imported before (``from dask.array import
    matmul``) stays what it was. Products that CuPy's functions compute inside theirs
    are CuPy's.

    Examples
    --------
    >>> import dask.array as da
    >>> import twom_dist as td
    >>> x = da.ones((40, 30), chunks=20)
    >>> with td.use(method="2m") as used:
    ...     y = x @ x.T
    >>> y
    dask.array<twom-update, shape=(40, 40), dtype=float64, chunksize=(20, 20), ...>
    >>> print(used)
    1 product ours, 0 native, 0 left
    """
    options: dict[str, Any] = {
        "accuracy": accuracy,
        "num_moduli": num_moduli,
        "engine": engine,
        "equilibrate": equilibrate,
        "method": method,
    }
    native = Choice.of(**options).method == NATIVE_METHOD
    block = _Entry(options, native, as_flag("strict", strict), _entered.get())
    with replaced(_answer):
        token = _entered.set(block)
        try:
            yield block.seen
        finally:
            block.is_open = False
            # A generator that has the block may be closed in another context.
            with suppress(ValueError):
                _entered.reset(token)


def _current() -> _Entry | None:
    block = _entered.get()
    while block is not None and not block.is_open:
        block = block.outer
    return block


def _answer(
    read: Read, original: Callable[..., Any], /, *args: Any, **more: Any
) -> Any:
    """Compute a call of another library, or have the library do so."""
    block = _current()
    if block is None:
        return original(*args, **more)
    # Neither side's own calls are asked for by the program.
    token = _entered.set(None)
    try:
        return _multiply(block, read, original, args, more)
    finally:
        _entered.reset(token)


def _multiply(
    block: _Entry,
    read: Read,
    original: Callable[..., Any],
    args: tuple[Any, ...],
    more: Mapping[str, Any],
) -> Any:
    try:
        asked = read(args, more)
        if asked is None:
            return original(*args, **more)
        check_operands(asked.operands)
        with listen() as answers:
            found = asked.compute(block.options)
    except TwomError as error:
        if block.strict:
            raise
        # What the library raises in its turn shows our error before its own.
        found = original(*args, **more)
        block.seen.add("left", f"left: {original.__name__}, since {error.problem}")
        return found
    if block.native:
        block.seen.add("native", "native, since method='blas' was given")
    elif answers and all(answers):
        block.seen.add("native", answers[0])
    else:
        block.seen.add("ours")
    return found
