"""Moving tiles: to the device when they are read, back before they are written."""

from ..errors import portable_errors
from ..kernels.family import convert
from ..kernels.registry import get_engine
from ..store import StoredMatrix
from ..typing import Array


def read_to_device(
    matrix: StoredMatrix,
    index: tuple[slice, slice],
    asarray: bool = False,
    lock: bool = False,
) -> Array:
    """Read one region, as dask's getters do, to the device; the host's copy goes."""
    block = matrix[index]
    # On leaving, the copy is there for every stream.
    with portable_errors(), get_engine("cuda").task():
        return convert(block, "cupy")


def to_host(tile: Array) -> Array:
    """Copy a tile of a device to the host; one of the host is taken as it is."""
    return convert(tile, "numpy")
