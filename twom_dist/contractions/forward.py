"""NumPy's functions, as each library has them for its own arrays."""

import sys
from collections.abc import Iterable, Iterator
from functools import cache, wraps
from types import ModuleType
from typing import Any

import numpy as np

from ..kernels.family import family_of
from ..problem.matrices import is_dask


@cache
def forward(module: ModuleType, name: str) -> Any:
    """Return what NumPy calls so; functions are those of the library of their arrays.

    `module`: numpy or numpy.linalg, of which the name has to be a public one.
    """
    if name not in module.__all__:
        raise AttributeError(f"module {module.__name__!r} has no public {name!r}")
    found = getattr(module, name)
    if not callable(found) or isinstance(found, type):
        return found
    path = module.__name__.split(".")[1:]

    @wraps(found)
    def forwarded(*args: Any, **kwargs: Any) -> Any:
        x = next(_find_foreign([*args, *kwargs.values()]), None)
        if x is None:
            return found(*args, **kwargs)
        place = _namespace_of(x)
        for step in path:
            place = getattr(place, step, None)
        # dask has some as methods alone, astype say; NumPy asks the array for the rest.
        own: Any = getattr(place, name, None) or getattr(type(x), name, found)
        return own(*args, **kwargs)

    forwarded.__module__ = f"twom_dist.{module.__name__}"  # pickle looks there
    return forwarded


def _find_foreign(given: Iterable[Any]) -> Iterator[Any]:
    """List the arrays of other libraries, also those in lists and tuples."""
    for x in given:
        if isinstance(x, list | tuple):
            yield from _find_foreign(x)
        elif _namespace_of(x) is not None:
            yield x


def _namespace_of(x: Any) -> Any:
    """Return the module whose functions take an array; None for NumPy's and others."""
    if isinstance(x, np.ndarray | np.generic):
        return None
    if hasattr(type(x), "__array_namespace__"):
        return x.__array_namespace__()
    if is_dask(x):
        return sys.modules["dask.array"]
    return sys.modules["cupy"] if family_of(x) == "cupy" else None
