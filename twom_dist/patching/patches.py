"""Functions of other libraries that are replaced while a block is open anywhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from threading import RLock
from typing import Any, NamedTuple

from .calls import METHODS, READERS, Read

# Answers a call: given its name, its reader, the original function and the arguments.
Answer = Callable[..., Any]

# Our own products of the same kinds, and those inside of CuPy's functions and of tasks.
_OURS = ("twom_dist",)
_INSIDE = (*_OURS, "cupy", "cupyx", "dask", "distributed")
# opt_einsum's names of the libraries whose functions are replaced.
_LOOKED_UP = ("cupy", "dask", "dask.array")


class _Patch(NamedTuple):
    """A name in a module or class, and who is not answered there."""

    owner: Any
    name: str
    read: Read
    skipped: tuple[str, ...]

    @property
    def own(self) -> Any:
        return vars(self.owner).get(self.name)


_lock = RLock()
_blocks = 0
# By owner and name: the patch, our function, and what was there.
_patched: dict[tuple[int, str], tuple[_Patch, Any, Any]] = {}


@contextmanager
def patch(answer: Answer) -> Iterator[None]:
    """Have calls answered until the last block ends; then all is as it was."""
    global _blocks
    with _lock:
        _blocks += 1
    try:
        with _lock:
            for each in _find_patches():
                _replace(each, answer)
            _forget_lookups()
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                _restore()


def _find_patches() -> Iterator[_Patch]:
    import dask.array as da
    from dask.array import einsumfuncs, routines

    # Methods, NumPy's ufuncs and functions look here when they are called.
    for module in (da, routines, einsumfuncs):
        for name, read in READERS.items():
            if name in vars(module):
                yield _Patch(module, name, read, _OURS)
    cupy = sys.modules.get("cupy")
    if (arrays := getattr(cupy, "ndarray", None)) is not None:
        for owner, readers in ((cupy, READERS), (arrays, METHODS)):
            for name, read in readers.items():
                yield _Patch(owner, name, read, _INSIDE)


def _replace(patch: _Patch, answer: Answer) -> None:
    key = id(patch.owner), patch.name
    if key in _patched:
        return
    before, original = patch.own, getattr(patch.owner, patch.name)
    # One for each function: pickle compares that of its own module.
    made = [ours for _, ours, was in _patched.values() if was is original]
    answered = partial(answer, patch.name.strip("_"), patch.read, original)
    ours = made[0] if made else _make(patch, original, answered)
    setattr(patch.owner, patch.name, ours)
    _patched[key] = patch, ours, before


def _make(patch: _Patch, original: Any, answer: Answer) -> Any:
    @wraps(original)
    def function(*args: Any, **more: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.partition(".")[0] in patch.skipped:
            return original(*args, **more)
        return answer(*args, **more)

    return function


def _restore() -> None:
    for patch, ours, before in _patched.values():
        if patch.own is not ours:
            continue  # replaced by another library: ours is called by it
        if before is None:
            delattr(patch.owner, patch.name)
        else:
            setattr(patch.owner, patch.name, before)
    _patched.clear()
    _forget_lookups()


def _forget_lookups() -> None:
    """Have opt_einsum look functions up again, which it keeps for a whole process."""
    dispatch = sys.modules.get("opt_einsum.backends.dispatch")
    kept = getattr(dispatch, "_cached_funcs", {})
    for name, library in [*kept]:
        if name in READERS and library in _LOOKED_UP:
            kept.pop((name, library), None)
