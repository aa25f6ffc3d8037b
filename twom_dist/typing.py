"""Types shared by the layers."""

from collections.abc import Sequence
from operator import index
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from .errors import PlanError, shown

Array = Any  # a NumPy or CuPy array: engines take and give arrays of their own family
Cell = tuple[int, int]  # indices of a tile of C

Op = Literal["N", "T", "C"]
Side = Literal["left", "right"]
Uplo = Literal["full", "lower", "upper"]
Method = Literal["2m", "3m", "4m", "hybrid", "blas", "auto"]
Accuracy = Literal["componentwise", "normwise"]
EngineName = Literal["auto", "cpu", "cuda", "reference"]


def as_integer(value: Any) -> int | None:
    """Return an integer of any type as Python's; None for all else, booleans too."""
    if isinstance(value, bool):
        return None
    try:
        return index(value)
    except TypeError:
        return None


def as_flag(name: str, value: Any) -> bool:
    """Return True or False; refuse all else, texts such as "no" as well."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise PlanError(f"{name}={shown(value)} is neither True nor False", "", name)


# --- arrays as a type checker sees them, whose libraries are not imported -------------

NumPyArray = npt.NDArray[Any]
# Whatever NumPy makes a matrix of; a string is not among it.
NumPyLike = npt.NDArray[Any] | Sequence[Sequence[complex] | npt.NDArray[Any]]


class DaskLike(Protocol):
    """A dask array, as `dask.array.Array` is."""

    @property
    def chunks(self) -> Any:
        """Sizes of the chunks along each dimension."""

    def rechunk(self, *args: Any, **kwargs: Any) -> Any:
        """Cut it in another way."""


class CuPyLike(Protocol):
    """An array of a CUDA device, as `cupy.ndarray` is."""

    @property
    def __cuda_array_interface__(self) -> Any: ...


class DLPackLike(Protocol):
    """An array of a library that speaks DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


class DataArrayLike(Protocol):
    """An array with named dimensions, as `xarray.DataArray` is."""

    @property
    def dims(self) -> Any:
        """Names of the dimensions."""

    @property
    def coords(self) -> Any:
        """Labels along them."""


Lazy = TypeVar("Lazy", bound=DaskLike)
Foreign = TypeVar("Foreign", bound=DLPackLike)
Labelled = TypeVar("Labelled", bound=DataArrayLike)
OnDevice = TypeVar("OnDevice", bound=CuPyLike)
Own = TypeVar("Own", bound=DaskLike | DLPackLike | CuPyLike)  # not NumPy's, alone


TensorLike = NumPyLike | Sequence[complex]  # with any number of axes
InMemory = TensorLike | CuPyLike  # what may stand beside a dask array
