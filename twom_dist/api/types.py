"""Signatures for type checkers: results are of the same array library as the inputs.

A parameter specification passes the options of each function to its signature.
"""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, cast, overload

from ..problem.call import Call
from ..typing import (
    CuPyLike,
    DLPackLike,
    Foreign,
    InMemory,
    Labelled,
    Lazy,
    NumPyArray,
    NumPyLike,
    OnDevice,
    Own,
    TensorLike,
)

P = ParamSpec("P")
Pair = tuple[Any, Any]  # high and low parts
Writable = NumPyArray | CuPyLike | DLPackLike  # what a result may be written to


class Askable(Protocol):
    """A public routine; `ask` returns its call without computing it."""

    __name__: str
    ask: Callable[..., Call]


class OfTwo(Askable, Protocol[P]):
    """Products of two matrices; what is added to them does not tell the type."""

    @overload
    def __call__(
        self, A: NumPyLike, B: NumPyLike, *args: P.args, **kwargs: P.kwargs
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, A: OnDevice, B: OnDevice, *args: P.args, **kwargs: P.kwargs
    ) -> OnDevice: ...
    @overload
    def __call__(
        self, A: Lazy, B: Lazy | InMemory, *args: P.args, **kwargs: P.kwargs
    ) -> Lazy: ...
    @overload
    def __call__(
        self, A: InMemory, B: Lazy, *args: P.args, **kwargs: P.kwargs
    ) -> Lazy: ...
    @overload
    def __call__(
        self, A: Foreign, B: Foreign | NumPyLike, *args: P.args, **kwargs: P.kwargs
    ) -> Foreign: ...


class OfOne(Askable, Protocol[P]):
    """Rank-k products of one matrix."""

    @overload
    def __call__(
        self, A: NumPyLike, *args: P.args, **kwargs: P.kwargs
    ) -> NumPyArray: ...
    @overload
    def __call__(self, A: Own, *args: P.args, **kwargs: P.kwargs) -> Own: ...


class LabelledOfTwo(Askable, Protocol[P]):
    """Products of DataArrays."""

    def __call__(
        self, A: Labelled, B: Labelled, *args: P.args, **kwargs: P.kwargs
    ) -> Labelled:
        """Return a DataArray."""


class LabelledOfOne(Askable, Protocol[P]):
    """Rank-k products of a DataArray."""

    def __call__(self, A: Labelled, *args: P.args, **kwargs: P.kwargs) -> Labelled:
        """Return a DataArray."""


class Contraction(Protocol[P]):
    """matmul and tensordot."""

    @overload
    def __call__(
        self, x1: TensorLike, x2: TensorLike, /, *args: P.args, **kwargs: P.kwargs
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: OnDevice, x2: OnDevice, /, *args: P.args, **kwargs: P.kwargs
    ) -> OnDevice: ...
    @overload
    def __call__(
        self, x1: Lazy, x2: Lazy | InMemory, /, *args: P.args, **kwargs: P.kwargs
    ) -> Lazy: ...
    @overload
    def __call__(
        self, x1: InMemory, x2: Lazy, /, *args: P.args, **kwargs: P.kwargs
    ) -> Lazy: ...


def as_contraction(function: Callable[Concatenate[Any, Any, P], Any]) -> Contraction[P]:
    """Show a type checker that the result is of the operands' family."""
    return cast(Contraction[P], function)
