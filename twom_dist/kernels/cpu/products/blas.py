"""BLAS on one thread, called by each of the threads of a product."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_one = threading.Lock()


@cache
def _libraries() -> Any:
    """Find the libraries, which takes a millisecond."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


@contextmanager
def single_threaded() -> Iterator[None]:
    """Have the BLAS take no threads of its own, in all of the process.

    Beside ours they made a product of 1024 take twice as long (2 cores). Whoever begins
    first takes them away, and gives them back: no other thread could.
    """
    if not _one.acquire(blocking=False):
        yield
        return
    # By threadpoolctl's own context it would take twice as long.
    found = [(library, library.num_threads) for library in _libraries()]
    try:
        for library, _ in found:
            library.set_num_threads(1)
        yield
    finally:
        for library, threads in found:
            library.set_num_threads(threads)
        _one.release()
