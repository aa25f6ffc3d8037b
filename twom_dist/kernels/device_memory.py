"""Memory of a device: what is free, and what is released if an array does not fit."""

import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from ..errors import MemoryLimitError
from ..typing import Array

_FULL = "device-memory"
_REMEDY = (
    "Free other arrays, use smaller chunks for dask arrays, or set "
    "twom-dist.workspace-bytes in dask.config to less than what is free"
)
_Result = TypeVar("_Result")

# Called where a device is full: they drop what can be made again.
on_full: list[Callable[[], object]] = []

_share: ContextVar[float] = ContextVar("share", default=1.0)


def empty(xp: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Allocate with NumPy or CuPy; on a full device again after `on_full`.

    MemoryLimitError says what would make room there.
    """
    try:
        return xp.empty(shape, dtype)
    except MemoryError:  # of CuPy's pool, or of RMM's
        if xp.__name__ != "cupy":
            raise
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return _make_room(xp, lambda: xp.empty(shape, dtype), size)


def allocate(cupy: Any, size: int) -> Any:
    """Allocate as `empty` does, but memory without an array: a fifth of the time."""
    try:
        return cupy.cuda.alloc(size)
    except MemoryError:
        pass
    return _make_room(cupy, lambda: cupy.cuda.alloc(size), size)


def _make_room(cupy: Any, attempt: Callable[[], Any], wanted: int) -> Any:
    _give_up()
    pool = _pool(cupy)
    if isinstance(pool, cupy.cuda.MemoryPool):
        pool.free_all_blocks()  # CuPy does not where the pool's limit is reached
    try:
        return attempt()
    except MemoryError:
        free, total = cupy.cuda.runtime.memGetInfo()
        problem = (
            f"the device has no room for {wanted:,} more bytes: {free:,} of its "
            f"{total:,} are free outside CuPy's pool"
        )
        raise MemoryLimitError(problem, _REMEDY, _FULL) from None


def _give_up() -> None:
    for give_up in on_full:
        give_up()


def free_bytes(cupy: Any) -> int | None:
    """Count what CuPy's current pool can still give; None of other allocators.

    What RMM's or PyTorch's pool still holds cannot be asked for.
    """
    owner = _pool(cupy)
    if not isinstance(owner, cupy.cuda.MemoryPool):
        return None
    free = int(cupy.cuda.runtime.memGetInfo()[0]) + int(owner.free_bytes())
    limit = int(owner.get_limit())
    return min(free, limit - int(owner.used_bytes())) if limit else free


def count_sharers() -> int:
    """Count the threads whose tasks take room next to this one, itself included.

    Those of this thread's dask worker; 1 outside of one.
    """
    if "distributed" not in sys.modules:
        return 1
    from distributed import get_worker

    try:
        return int(get_worker().state.nthreads)
    except ValueError:
        return 1


def _pool(cupy: Any) -> Any:
    """Return the pool whose method CuPy's current allocator is, or None."""
    return getattr(cupy.cuda.get_allocator(), "__self__", None)


def try_with_less(compute: Callable[[], _Result]) -> _Result:
    """Compute; where the device is full, again in half of the workspace."""
    try:
        return compute()
    except (MemoryLimitError, MemoryError) as error:
        full = _find_full(error)
        if full is None:
            raise
        # The frames of tracebacks hold the arrays of this attempt.
        for each in (error, full):
            each.with_traceback(None)
    _give_up()  # CuPy's own temporaries have not
    token = _share.set(0.5)
    try:
        return compute()
    except (MemoryLimitError, MemoryError):
        raise full from None
    finally:
        _share.reset(token)


def _find_full(error: Exception) -> MemoryLimitError | None:
    """Return what to raise of a full device; None of other errors."""
    if isinstance(error, MemoryLimitError):
        return error if error.code == _FULL else None
    if not type(error).__module__.startswith("cupy"):
        return None
    return MemoryLimitError(f"the device is full: {error}", _REMEDY, _FULL)


def workspace_share() -> float:
    """Return the share of its workspace that a product may take now."""
    return _share.get()
