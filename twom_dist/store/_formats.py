"""The formats: modules that fulfil one contract."""

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from twom_dist.store import _hdf5, _npy, _npz, _zarr
from twom_dist.store._checks import Description
from twom_dist.store._draft import Draft
from twom_dist.store._location import Location
from twom_dist.store._region import Region


class Format(Protocol):
    """One format: each function opens the file, does its work and closes it."""

    IS_FOLDER: bool
    CONCURRENT: bool
    """Whether several processes may write at once."""
    DEFAULT_MEMBER: str
    """Name of an output that is given none."""

    def describe(self, location: Location) -> Description:
        """Read what a file says about the array."""

    def stamp(self, location: Location) -> str:
        """Return what changes when any part of what `describe` found is rewritten."""

    def members(self, path: str) -> list[str]:
        """List all that a container holds."""

    def read(self, expected: Description, region: Region) -> NDArray[Any]:
        """Check that what `describe` found still holds, and read a rectangle.

        Into a fresh C-ordered array of native dtype; never an empty rectangle.
        """

    def create(self, draft: Draft) -> None:
        """Start the temporary."""

    def write(self, draft: Draft, region: Region, values: NDArray[Any]) -> None:
        """Write a rectangle, C-ordered and of the draft's dtype; never an empty one."""

    def sync(self, draft: Draft, regions: Sequence[Region]) -> None:
        """Return when what was written there outlives a power cut."""

    def finish(self, draft: Draft) -> str:
        """Make what is to be published, of which all is written, and return its path.

        What a killed process has left among it goes.
        """

    def needed_bytes(self, draft: Draft) -> int:
        """Return the disk space that the matrix takes until it is published."""


FORMAT_TABLE: dict[str, Format] = {
    "npy": _npy,
    "npz": _npz,
    "hdf5": _hdf5,
    "zarr": _zarr,
}
