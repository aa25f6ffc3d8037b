"""The formats: modules that fulfil one contract."""

from typing import Any, Protocol

from numpy.typing import NDArray

from twom_dist.store import _hdf5, _npy, _npz, _zarr
from twom_dist.store._checks import Description
from twom_dist.store._location import Location
from twom_dist.store._region import Region
from twom_dist.store.output import Output


class Format(Protocol):
    """One format: each function opens the file, does its work and closes it."""

    IS_FOLDER: bool
    DEFAULT_MEMBER: str
    """Name of an output that is given none."""

    def describe(self, location: Location) -> Description:
        """Read what a file says about the array."""

    def stamp(self, location: Location) -> str:
        """Return what changes when any part of what `describe` found is rewritten."""

    def count_chunks(self, location: Location) -> tuple[int, int]:
        """Count the chunks that are stored, by their names, and those of a full one."""

    def provenance(self, location: Location) -> dict[str, Any]:
        """Return what an output of ours says about itself; empty for other matrices."""

    def members(self, path: str) -> list[str]:
        """List all that a container holds."""

    def read(self, expected: Description, region: Region) -> NDArray[Any]:
        """Check that what `describe` found still holds, and read a rectangle.

        Into a fresh C-ordered array of native dtype; never an empty rectangle.
        """

    def export(self, path: str, member: str | None, output: Output) -> str:
        """Make a file of this format from a finished output; return its path.

        It is the path that is given, unless the output is one already.
        """

    def export_bytes(self, output: Output) -> int:
        """Return the disk space that takes beside the output itself."""


FORMAT_TABLE: dict[str, Format] = {
    "npy": _npy,
    "npz": _npz,
    "hdf5": _hdf5,
    "zarr": _zarr,
}
