"""The BLAS-typed names: each routine with every input promoted to one dtype."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from ..problem.dtypes import DTYPES
from .gemm import call, gemm
from .updates import her2k, herk, syr2k, syrk

F = TypeVar("F", bound=Callable[..., Any])


def _typed(letter: str, routine: F) -> F:
    """Make the typed form of a routine, with its signature."""
    name, dtype = routine.__name__, DTYPES[letter]
    signature = inspect.signature(routine)

    @wraps(routine)
    def typed(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{letter}{name}() {error}") from None
        return call(name, letter=letter, **given)

    # What pickle finds it by.
    typed.__module__, typed.__name__ = __name__, letter + name
    typed.__qualname__ = typed.__name__
    # Without its indent, which docstrings have no more from Python 3.13 on.
    summary, _, rest = (inspect.getdoc(routine) or "").partition("\n")
    body = rest.partition("\nExamples\n")[0].rstrip()
    typed.__doc__ = (
        f"{summary}\n\n`{name}` in {dtype}: every input is promoted to it where "
        f'NumPy\'s "safe" casting\nallows that.\n{body}\n'
    )
    return cast(F, typed)


sgemm, dgemm, cgemm, zgemm = (_typed(letter, gemm) for letter in "sdcz")
cherk, zherk = (_typed(letter, herk) for letter in "cz")
ssyrk, dsyrk, csyrk, zsyrk = (_typed(letter, syrk) for letter in "sdcz")
cher2k, zher2k = (_typed(letter, her2k) for letter in "cz")
ssyr2k, dsyr2k, csyr2k, zsyr2k = (_typed(letter, syr2k) for letter in "sdcz")
