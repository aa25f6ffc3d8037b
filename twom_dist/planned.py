"""Lazy results that show what they will cost."""

from functools import cache
from html import escape
from typing import Any

from .plan import Plan


def with_plan(array: Any, plan: Plan) -> Any:
    """Have a lazy array, which nobody else holds, show the cost of its plan.

    What is derived from it, persisted, optimised or unpickled is dask's plain array.
    """
    plain: Any = type(array)
    array.__class__ = _planned_class(plain)
    array._twom_cost = _what_is_computed(array), plan
    return array


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
    """Describe the cost, unless `array[...] = x` has made another array of it."""
    what, plan = array._twom_cost
    return [plan.describe_cost()] if what is _what_is_computed(array) else []


def _what_is_computed(array: Any) -> Any:
    # To name an expression takes 0.2 ms.
    return array.expr if hasattr(array, "expr") else array.name
