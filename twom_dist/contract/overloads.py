"""What contractions look like to a type checker: results are of the inputs' family."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypedDict, Unpack, cast, overload

import numpy.typing as npt

from ..typing import Accuracy, CuPyLike, Device, EngineName, Lazy, Method, NumPyLike

# What NumPy makes an array of any number of axes of.
TensorLike = NumPyLike | Sequence[complex]
InMemory = TensorLike | CuPyLike


class ContractionOptions(TypedDict, total=False):
    """What decides about the int8 products, apart from the method."""

    accuracy: Accuracy | float | None
    num_moduli: int | None
    engine: EngineName
    equilibrate: bool | None


class Matmul(Protocol):
    """The signature of matmul."""

    @overload
    def __call__(
        self,
        x1: TensorLike,
        x2: TensorLike,
        /,
        *,
        out: npt.NDArray[Any] | None = None,
        method: Method = "auto",
        **options: Unpack[ContractionOptions],
    ) -> npt.NDArray[Any]: ...
    @overload
    def __call__(
        self,
        x1: Device,
        x2: Device,
        /,
        *,
        out: Device | None = None,
        method: Method = "auto",
        **options: Unpack[ContractionOptions],
    ) -> Device: ...
    @overload
    def __call__(
        self,
        x1: Lazy,
        x2: Lazy | InMemory,
        /,
        *,
        method: Method = "auto",
        **options: Unpack[ContractionOptions],
    ) -> Lazy: ...
    @overload
    def __call__(
        self,
        x1: InMemory,
        x2: Lazy,
        /,
        *,
        method: Method = "auto",
        **options: Unpack[ContractionOptions],
    ) -> Lazy: ...


class Tensordot(Protocol):
    """The signature of tensordot."""

    @overload
    def __call__(
        self,
        a: TensorLike,
        b: TensorLike,
        axes: Any = 2,
        *,
        method: Method = "auto",
        **options: Unpack[ContractionOptions],
    ) -> npt.NDArray[Any]: ...
    @overload
    def __call__(
        self,
        a: Device,
        b: Device,
        axes: Any = 2,
        *,
        method: Method = "auto",
        **options: Unpack[ContractionOptions],
    ) -> Device: ...
    @overload
    def __call__(
        self,
        a: Lazy,
        b: Lazy | InMemory,
        axes: Any = 2,
        *,
        method: Method = "auto",
        **options: Unpack[ContractionOptions],
    ) -> Lazy: ...
    @overload
    def __call__(
        self,
        a: InMemory,
        b: Lazy,
        axes: Any = 2,
        *,
        method: Method = "auto",
        **options: Unpack[ContractionOptions],
    ) -> Lazy: ...


class Einsum(Protocol):
    """The signature of einsum."""

    @overload
    def __call__(
        self,
        subscripts: str,
        /,
        *operands: TensorLike,
        out: npt.NDArray[Any] | None = None,
        optimize: Any = "auto",
        method: Method = "auto",
        **options: Unpack[ContractionOptions],
    ) -> npt.NDArray[Any]: ...
    @overload
    def __call__(
        self,
        subscripts: str,
        /,
        *operands: Device,
        out: Device | None = None,
        optimize: Any = "auto",
        method: Method = "auto",
        **options: Unpack[ContractionOptions],
    ) -> Device: ...
    @overload
    def __call__(
        self,
        subscripts: str,
        /,
        *operands: Lazy,
        optimize: Any = "auto",
        method: Method = "auto",
        **options: Unpack[ContractionOptions],
    ) -> Lazy: ...
    @overload
    def __call__(
        self,
        subscripts: str,
        /,
        *operands: Any,
        out: Any = None,
        optimize: Any = "auto",
        method: Method = "auto",
        **options: Unpack[ContractionOptions],
    ) -> Any: ...


def as_matmul(function: Callable[..., Any]) -> Matmul:
    """Show a type checker the signature of matmul."""
    return cast(Matmul, function)


def as_tensordot(function: Callable[..., Any]) -> Tensordot:
    """Show a type checker the signature of tensordot."""
    return cast(Tensordot, function)


def as_einsum(function: Callable[..., Any]) -> Einsum:
    """Show a type checker the signature of einsum."""
    return cast(Einsum, function)
