"""What the routines look like to a type checker: results are of the inputs' family.

At run time each routine has the whole signature; here its options are dictionaries.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypedDict, Unpack, cast, overload

from ..typing import (
    Accuracy,
    CuPyLike,
    Device,
    DLPackLike,
    EngineName,
    Foreign,
    InMemory,
    Labelled,
    Lazy,
    Method,
    NumPyArray,
    NumPyLike,
    Op,
    Uplo,
)


class Choices(TypedDict, total=False):
    """What decides about the int8 products."""

    accuracy: Accuracy | float | None
    num_moduli: int | None
    method: Method
    engine: EngineName
    equilibrate: bool | None
    pairs: bool


class PlanOptions(Choices, total=False):
    """What plans are told besides: the form of the result."""

    out: Literal["dd"] | None
    dim: str | None


class Scalars(TypedDict, total=False):
    """What a result of one array takes."""

    alpha: complex
    beta: complex | None
    out: NumPyArray | CuPyLike | DLPackLike | None


class ProductPairOptions(Choices, total=False):
    """What gemm takes with ``out="dd"``."""

    op_a: Op
    op_b: Op


class ProductOptions(ProductPairOptions, Scalars, total=False):
    """What gemm takes."""


class UpdatePairOptions(Choices, total=False):
    """What herk, syrk, her2k and syr2k take with ``out="dd"``."""

    op: Op
    uplo: Uplo


class UpdateOptions(UpdatePairOptions, Scalars, total=False):
    """What herk, syrk, her2k and syr2k take."""


class Gemm(Protocol):
    """The signature of gemm and its BLAS-typed names."""

    __name__: str

    @overload
    def __call__(
        self,
        A: NumPyLike,
        B: NumPyLike,
        *,
        out: Literal["dd"],
        **options: Unpack[ProductPairOptions],
    ) -> tuple[NumPyArray, NumPyArray]: ...
    @overload
    def __call__(
        self,
        A: Device,
        B: Device,
        *,
        out: Literal["dd"],
        **options: Unpack[ProductPairOptions],
    ) -> tuple[Device, Device]: ...
    @overload
    def __call__(
        self,
        A: Lazy,
        B: Lazy | InMemory,
        *,
        out: Literal["dd"],
        **options: Unpack[ProductPairOptions],
    ) -> tuple[Lazy, Lazy]: ...
    @overload
    def __call__(
        self,
        A: InMemory,
        B: Lazy,
        *,
        out: Literal["dd"],
        **options: Unpack[ProductPairOptions],
    ) -> tuple[Lazy, Lazy]: ...
    @overload
    def __call__(
        self,
        A: NumPyLike,
        B: NumPyLike,
        C: NumPyLike | None = None,
        **options: Unpack[ProductOptions],
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self,
        A: Device,
        B: Device,
        C: Device | None = None,
        **options: Unpack[ProductOptions],
    ) -> Device: ...
    @overload
    def __call__(
        self,
        A: Lazy,
        B: Lazy | InMemory,
        C: Lazy | InMemory | None = None,
        **options: Unpack[ProductOptions],
    ) -> Lazy: ...
    @overload
    def __call__(
        self,
        A: InMemory,
        B: Lazy,
        C: Lazy | InMemory | None = None,
        **options: Unpack[ProductOptions],
    ) -> Lazy: ...
    @overload
    def __call__(
        self, A: InMemory, B: InMemory, C: Lazy, **options: Unpack[ProductOptions]
    ) -> Lazy: ...
    @overload
    def __call__(
        self,
        A: Labelled,
        B: Labelled,
        C: Labelled | None = None,
        *,
        dim: str,
        **options: Unpack[ProductOptions],
    ) -> Labelled: ...
    @overload
    def __call__(
        self,
        A: Foreign,
        B: Foreign | NumPyLike,
        C: Foreign | NumPyLike | None = None,
        **options: Unpack[ProductOptions],
    ) -> Foreign: ...


class Update(Protocol):
    """The signature of herk, syrk and their BLAS-typed names."""

    __name__: str

    @overload
    def __call__(
        self, A: NumPyLike, *, out: Literal["dd"], **options: Unpack[UpdatePairOptions]
    ) -> tuple[NumPyArray, NumPyArray]: ...
    @overload
    def __call__(
        self, A: Device, *, out: Literal["dd"], **options: Unpack[UpdatePairOptions]
    ) -> tuple[Device, Device]: ...
    @overload
    def __call__(
        self, A: Lazy, *, out: Literal["dd"], **options: Unpack[UpdatePairOptions]
    ) -> tuple[Lazy, Lazy]: ...
    @overload
    def __call__(
        self,
        A: NumPyLike,
        C: NumPyLike | None = None,
        **options: Unpack[UpdateOptions],
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, A: Device, C: Device | None = None, **options: Unpack[UpdateOptions]
    ) -> Device: ...
    @overload
    def __call__(
        self,
        A: Lazy,
        C: Lazy | InMemory | None = None,
        **options: Unpack[UpdateOptions],
    ) -> Lazy: ...
    @overload
    def __call__(
        self, A: InMemory, C: Lazy, **options: Unpack[UpdateOptions]
    ) -> Lazy: ...
    @overload
    def __call__(
        self,
        A: Labelled,
        C: Labelled | None = None,
        *,
        dim: str,
        **options: Unpack[UpdateOptions],
    ) -> Labelled: ...
    @overload
    def __call__(
        self,
        A: Foreign,
        C: Foreign | NumPyLike | None = None,
        **options: Unpack[UpdateOptions],
    ) -> Foreign: ...


class Update2(Protocol):
    """The signature of her2k, syr2k and their BLAS-typed names."""

    __name__: str

    @overload
    def __call__(
        self,
        A: NumPyLike,
        B: NumPyLike,
        *,
        out: Literal["dd"],
        **options: Unpack[UpdatePairOptions],
    ) -> tuple[NumPyArray, NumPyArray]: ...
    @overload
    def __call__(
        self,
        A: Device,
        B: Device,
        *,
        out: Literal["dd"],
        **options: Unpack[UpdatePairOptions],
    ) -> tuple[Device, Device]: ...
    @overload
    def __call__(
        self,
        A: Lazy,
        B: Lazy | InMemory,
        *,
        out: Literal["dd"],
        **options: Unpack[UpdatePairOptions],
    ) -> tuple[Lazy, Lazy]: ...
    @overload
    def __call__(
        self,
        A: InMemory,
        B: Lazy,
        *,
        out: Literal["dd"],
        **options: Unpack[UpdatePairOptions],
    ) -> tuple[Lazy, Lazy]: ...
    @overload
    def __call__(
        self,
        A: NumPyLike,
        B: NumPyLike,
        C: NumPyLike | None = None,
        **options: Unpack[UpdateOptions],
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self,
        A: Device,
        B: Device,
        C: Device | None = None,
        **options: Unpack[UpdateOptions],
    ) -> Device: ...
    @overload
    def __call__(
        self,
        A: Lazy,
        B: Lazy | InMemory,
        C: Lazy | InMemory | None = None,
        **options: Unpack[UpdateOptions],
    ) -> Lazy: ...
    @overload
    def __call__(
        self,
        A: InMemory,
        B: Lazy,
        C: Lazy | InMemory | None = None,
        **options: Unpack[UpdateOptions],
    ) -> Lazy: ...
    @overload
    def __call__(
        self, A: InMemory, B: InMemory, C: Lazy, **options: Unpack[UpdateOptions]
    ) -> Lazy: ...
    @overload
    def __call__(
        self,
        A: Labelled,
        B: Labelled,
        C: Labelled | None = None,
        *,
        dim: str,
        **options: Unpack[UpdateOptions],
    ) -> Labelled: ...
    @overload
    def __call__(
        self,
        A: Foreign,
        B: Foreign | NumPyLike,
        C: Foreign | NumPyLike | None = None,
        **options: Unpack[UpdateOptions],
    ) -> Foreign: ...


def as_gemm(function: Callable[..., Any]) -> Gemm:
    """Show a type checker the signature of gemm."""
    return cast(Gemm, function)


def as_update(function: Callable[..., Any]) -> Update:
    """Show a type checker the signature of herk."""
    return cast(Update, function)


def as_update2(function: Callable[..., Any]) -> Update2:
    """Show a type checker the signature of her2k."""
    return cast(Update2, function)
