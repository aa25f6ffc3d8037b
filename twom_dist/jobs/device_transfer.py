"""Moving tiles: to the device when they are read, back before they are written."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import portable_errors
from ..kernels.family import convert
from ..kernels.registry import get_engine
from ..store import StoredMatrix
from ..typing import Array


def to_device(block: Array) -> Array:
    """Copy a block to the worker's device."""
    # On leaving, the copy is there for every stream.
    with portable_errors(), get_engine("cuda").task():
        return convert(block, "cupy")


def to_host(tile: Array) -> Array:
    """Copy a tile of a device to the host; one of the host is taken as it is."""
    return convert(tile, "numpy")


@dataclass(frozen=True)
class DeviceMatrix:
    """A stored matrix whose blocks are on the device when they have been read.

    Attributes
    ----------
    stored : StoredMatrix
    """

    stored: StoredMatrix

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.stored.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions, always 2."""
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the blocks."""
        return self.stored.dtype

    def __getitem__(self, index: tuple[slice, slice]) -> Array:
        """Read one region; the host's copy of it goes at once."""
        return to_device(self.stored[index])

    def __dask_tokenize__(self) -> tuple[str, ...]:
        """Return what names the matrix in a dask graph."""
        return ("twom-device-matrix", *self.stored.__dask_tokenize__())
