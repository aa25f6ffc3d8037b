"""How kernels are compiled: to run without Python's lock, and once for a machine."""

from functools import partial
from hashlib import sha256
from typing import Any

from numba import njit
from numba.core.caching import IndexDataCacheFile


class CodeFiles(IndexDataCacheFile):
    """Compiled code in files that are named by types, processor and source.

    Numba numbers them. Two processes that first compile a kernel at the same time, for
    other types or on other nodes of a cluster, would give their code one name, and then
    run that of the other. Here the index may lose one of them, which is compiled again.
    """

    def save(self, key: Any, data: Any) -> None:
        """Keep what was compiled."""
        digest = sha256(repr(key).encode()).hexdigest()[:16]
        base = self._index_name.removesuffix(".nbi")
        self._data_name_pattern = f"{base}.{digest}.{{number}}.nbc"
        super().save(key, data)


def kernel(function: Any = None, **options: Any) -> Any:
    """Compile a function when it is first called, and keep the code on disk."""
    if function is None:
        return partial(kernel, **options)
    compiled = njit(nogil=True, cache=True, **options)(function)
    if hasattr(compiled, "_cache"):  # not where Numba is switched off
        compiled._cache._cache_file.__class__ = CodeFiles
    return compiled


# Of those that kernels alone call: without what Python and C would call them by, which
# saves a tenth of the time. A call from Python ends the process.
inner = partial(kernel, no_cpython_wrapper=True, no_cfunc_wrapper=True)
