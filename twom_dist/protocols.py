"""What arrays look like to a type checker, without importing their libraries."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy.typing as npt

NumPyArray = npt.NDArray[Any]
# Whatever NumPy makes a matrix of; a string is not among it.
NumPyLike = npt.NDArray[Any] | Sequence[Sequence[complex] | npt.NDArray[Any]]


class DaskLike(Protocol):
    """A dask array, as `dask.array.Array` is."""

    @property
    def chunks(self) -> Any:
        """Sizes of the chunks along each dimension."""
        ...

    def rechunk(self, *args: Any, **kwargs: Any) -> Any:
        """Cut it in another way."""
        ...


class CuPyLike(Protocol):
    """An array of a CUDA device, as `cupy.ndarray` is."""

    @property
    def __cuda_array_interface__(self) -> Any:
        """Describe the memory."""
        ...


class DLPackLike(Protocol):
    """An array of a library that speaks DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        """Export the memory."""
        ...


class DataArrayLike(Protocol):
    """An array with named dimensions, as `xarray.DataArray` is."""

    @property
    def dims(self) -> Any:
        """Names of the dimensions."""
        ...

    @property
    def coords(self) -> Any:
        """Labels along them."""
        ...


Lazy = TypeVar("Lazy", bound=DaskLike)
Foreign = TypeVar("Foreign", bound=DLPackLike)
Labelled = TypeVar("Labelled", bound=DataArrayLike)
Device = TypeVar("Device", bound=CuPyLike)


# What may stand beside a dask array.
InMemory = NumPyLike | CuPyLike
