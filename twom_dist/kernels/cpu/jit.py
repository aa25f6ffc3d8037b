"""Compilation of kernels that release Python's lock, once for each machine."""

import logging
from functools import cache, partial
from hashlib import sha256
from inspect import signature
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba import njit, types
from numba.core import event
from numba.core.caching import IndexDataCacheFile
from numba.extending import intrinsic

_PACKAGE = Path(__file__).parents[2]
# Modules whose functions and constants are compiled into kernels.
SOURCES = (
    *("kernels/cpu/**/*.py", "kernels/*.py", "moduli/*.py"),
    "kernels/cuda/driver.py",
)


@cache
def digest_sources() -> str:
    """Digest everything but types and processor that compiled code depends on.

    Numba looks only at the file of a kernel, not at those whose functions and constants
    it uses; and at the time of the file, not at its text.
    """
    digest = sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for pattern in SOURCES:
        for path in sorted(_PACKAGE.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()


class CodeFiles(IndexDataCacheFile):
    """Compiled code in files that are named by types and processor, stamped by source.

    Numba numbers them. Two processes that first compile a kernel at the same time, for
    other types or on other nodes of a cluster, would give their code one name, and then
    run that of the other. Here the index may lose one of them, which is compiled again.
    A file carries the stamp, too: the index that names it may be of other sources.
    """

    def save(self, key: Any, data: Any) -> None:
        """Keep what was compiled."""
        digest = sha256(repr(key).encode()).hexdigest()[:16]
        base = self._index_name.removesuffix(".nbi")
        self._data_name_pattern = f"{base}.{digest}.{{number}}.nbc"
        super().save(key, (self._source_stamp, data))

    def load(self, key: Any) -> Any:
        """Return what was compiled from these sources, or None."""
        stamp, data = super().load(key) or (None, None)
        return data if stamp == self._source_stamp else None


def kernel(function: Any = None, **options: Any) -> Any:
    """Compile a function when it is first called, and keep the code on disk."""
    if function is None:
        return partial(kernel, **options)
    compiled = njit(nogil=True, cache=True, **options)(function)
    if hasattr(compiled, "_cache"):  # not where Numba is switched off
        files = compiled._cache._cache_file
        files.__class__, files._source_stamp = CodeFiles, digest_sources()
    return compiled


# Only kernels call these, so the wrappers for Python and C are left out, which saves a
# tenth of the time. A call from Python ends the process.
inner = partial(kernel, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def instructions(
    write: Any = None, *, given: Any = (), result: Any = types.void
) -> Any:
    """Have kernels call what is written in LLVM's own language, by its builder.

    ``write(builder, *values)`` returns the value of the call, unless `result` is void.
    Values are addresses, or numbers of their size, unless their types are `given`: None
    of a number whose type LLVM's value tells.
    """
    if write is None:
        return partial(instructions, given=given, result=result)
    own = signature(write)
    kinds = given or (types.intp,) * (len(own.parameters) - 1)

    def type_call(typing_context: Any, *called: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            found = write(builder, *args)
            return context.get_dummy_value() if found is None else found

        pairs = zip(kinds, called, strict=True)
        return result(*(x if kind is None else kind for kind, x in pairs)), generate

    # Numba matches arguments by it; the builder stands where it has the context.
    type_call.__signature__ = own  # type: ignore[attr-defined]
    return intrinsic(type_call)


class _CompileListener(event.Listener):
    """Log once, when our first kernel that no cache holds is compiled."""

    told = False

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        if not self.told and function.__module__.startswith(__package__):
            self.told = True
            logging.getLogger("twom_dist").warning(
                "twom_dist compiles CPU kernels for this machine: up to a minute, once "
                "for each kind and dtype of product (then they are cached on disk)"
            )

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


@cache
def announce_compilation() -> None:
    """Say so when a kernel has to be compiled: a time that a user would wonder about.

    Cached kernels never reach the listener.
    """
    event.register("numba:compile", _CompileListener())
