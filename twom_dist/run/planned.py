"""Lazy results that show what they will cost."""

from functools import cache
from html import escape
from typing import Any

from ..plan import Cost


def with_cost(array: Any, cost: Cost | None) -> Any:
    """Have a lazy array, which nobody else holds, show its cost, if that is known.

    What is derived from it, persisted, optimised or unpickled is dask's plain array.
    """
    if cost is None:
        return array
    if not hasattr(array, "_twom_cost"):
        plain: Any = type(array)
        array.__class__ = _planned_class(plain)
    array._twom_cost = _what_is_computed(array), cost
    return array


def cost_of(array: Any) -> Cost | None:
    """Return the cost, unless `array[...] = x` has made another array of it."""
    what, cost = getattr(array, "_twom_cost", (None, None))
    return cost if what is not None and what is _what_is_computed(array) else None


@cache
def _planned_class(plain: Any) -> Any:
    """Return a subclass of the array class of either of dask's back ends."""

    class Array(plain):
        __slots__ = ()
        # Where opt_einsum, autoray and others look for the functions of an array.
        __module__ = plain.__module__
        __qualname__ = plain.__qualname__

        def __repr__(self) -> str:
            return "\n".join([super().__repr__(), *_list_cost(self)])

        def _repr_html_(self) -> str:
            # Arrays of expressions have none.
            show = getattr(super(), "_repr_html_", lambda: escape(plain.__repr__(self)))
            return show() + "".join(f"<p>{escape(x)}</p>" for x in _list_cost(self))

        def __reduce__(self) -> Any:
            if hasattr(self, "expr"):
                return plain, (self.expr,)
            return super().__reduce__()

    return Array


def _list_cost(array: Any) -> list[str]:
    cost = cost_of(array)
    return [] if cost is None else [str(cost)]


def _what_is_computed(array: Any) -> Any:
    # To name an expression takes 0.2 ms.
    return array.expr if hasattr(array, "expr") else array.name
