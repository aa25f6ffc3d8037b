"""Room on a device: what is free, and what is given up where an array does not fit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from ..errors import MemoryLimitError
from ..typing import Array
from .family import namespace

_FULL = "device-memory"
_Result = TypeVar("_Result")

# Called where a device is full: they drop what can be made again.
on_full: list[Callable[[], object]] = []

_share: ContextVar[float] = ContextVar("share", default=1.0)
# What was free when `OwnMemory` was made, in its uses.
_free_once: ContextVar[tuple[int | None] | None] = ContextVar("free", default=None)


def empty(xp: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Allocate with NumPy or CuPy; on a full device once more after `on_full`.

    Raises
    ------
    MemoryLimitError
        With what would make room on the device.
    """
    try:
        return xp.empty(shape, dtype)
    except MemoryError:  # of CuPy's pool, or of RMM's
        if xp.__name__ != "cupy":
            raise
    for give_up in on_full:
        give_up()
    pool = _current_pool(xp)
    if pool is not None:
        # Its own limit, or another allocator below it, lets CuPy keep what is free.
        pool.free_all_blocks()
    try:
        return xp.empty(shape, dtype)
    except MemoryError:
        wanted = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        free, total = xp.cuda.runtime.memGetInfo()
        raise MemoryLimitError(
            f"the device has no room for {wanted:,} more bytes: {free:,} of its "
            f"{total:,} are free outside CuPy's pool",
            "Free other arrays, use smaller chunks for dask arrays, or set "
            "twom-dist.workspace-bytes in dask.config to less than what is free",
            _FULL,
        ) from None


def copy(x: Array) -> Array:
    """Copy an array into memory from `empty`."""
    out = empty(namespace(x), x.shape, x.dtype)
    out[...] = x
    return out


def free_bytes(cupy: Any) -> int | None:
    """Count what CuPy's current pool can still give; None of other allocators.

    What RMM's or PyTorch's pool still holds cannot be asked for.
    """
    once = _free_once.get()
    if once is not None:
        return once[0]
    pool = _current_pool(cupy)
    if pool is None:
        return None
    free = int(cupy.cuda.runtime.memGetInfo()[0]) + int(pool.free_bytes())
    limit = int(pool.get_limit())
    return min(free, limit - int(pool.used_bytes())) if limit else free


def _current_pool(cupy: Any) -> Any:
    """Return the pool whose method is CuPy's current allocator, or None."""
    owner = getattr(cupy.cuda.get_allocator(), "__self__", None)
    return owner if isinstance(owner, cupy.cuda.MemoryPool) else None


class OwnMemory:
    """Memory of CuPy's current allocator that is kept from one use to the next.

    A use that allocates what the one before did takes nothing from that allocator, so
    that it can be captured: tiles are chosen by what was free at first.
    """

    def __init__(self) -> None:
        import cupy

        self._free = free_bytes(cupy)
        self._pool = cupy.cuda.MemoryPool(cupy.cuda.get_allocator())

    @contextmanager
    def use(self) -> Iterator[None]:
        """Allocate from it."""
        import cupy

        token = _free_once.set((self._free,))
        try:
            with cupy.cuda.using_allocator(self._pool.malloc):
                yield
        finally:
            _free_once.reset(token)


def try_with_less(compute: Callable[[], _Result]) -> _Result:
    """Compute; where the device is full, once more in half of the workspace."""
    try:
        return compute()
    except MemoryLimitError as error:
        if error.code != _FULL:
            raise
        # The frames of its traceback hold the arrays of this attempt.
        full = error.with_traceback(None)
    with _half():
        try:
            return compute()
        except MemoryLimitError:
            raise full from None


@contextmanager
def _half() -> Iterator[None]:
    token = _share.set(0.5)
    try:
        yield
    finally:
        _share.reset(token)


def workspace_share() -> float:
    """Return the share of its workspace that a product may take now."""
    return _share.get()
