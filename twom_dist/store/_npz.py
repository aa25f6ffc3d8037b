"""``.npz`` files: a zip archive of ``.npy`` members."""

from functools import partial
from typing import Any, Self
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ._location import DEFAULT_MEMBER, Location
from ._matrix import StoredMatrix, name_member, refuse_member
from ._npy import NpyHeader, check_size, read_header, read_region
from ._region import Region
from ._tree import stamp_file


class NpzMatrix(StoredMatrix):
    """A member of an archive; a compressed one is decompressed whole for every read."""

    @classmethod
    def find(cls, location: Location) -> Self:
        stamp = stamp_file(location.path)
        with ZipFile(location.path) as archive:
            location = name_member(location, partial(_matrices, archive))
            header, info, _ = _read_member(archive, location)
            found = cls._checked(location, header, None, stamp)
            check_size(location, header, info.file_size)
        return found

    @staticmethod
    def list_others(path: str) -> list[str]:
        """List all other members."""
        with ZipFile(path) as archive:
            names = (name.removesuffix(".npy") for name in archive.namelist())
            return [name for name in names if name != DEFAULT_MEMBER]

    def _read(self, region: Region) -> NDArray[Any]:
        with ZipFile(self.path) as archive:
            header, info, start = _read_member(archive, self.location)
            self._check_unchanged(header)
            if info.compress_type == ZIP_STORED:
                header = header._replace(offset=start + header.offset)
                return read_region(self.path, header, region)
            with archive.open(info) as stream:
                whole = npy_format.read_array(stream, allow_pickle=False)
        return np.array(whole[region], dtype=self.dtype, order="C")


def _read_member(
    archive: ZipFile, location: Location
) -> tuple[NpyHeader, ZipInfo, int]:
    """Read the header of a member, and tell where the member begins."""
    name = f"{location.member}.npy"
    if name not in archive.namelist():
        raise refuse_member(location, _matrices(archive))
    with archive.open(name) as stream:
        assert archive.fp is not None
        # To open a member reads what the archive has before it.
        start = archive.fp.tell()
        return read_header(stream), archive.getinfo(name), start


def _matrices(archive: ZipFile) -> list[str]:
    found = []
    for name in archive.namelist():
        if name.endswith(".npy"):
            with archive.open(name) as stream:
                if len(read_header(stream).shape) == 2:
                    found.append(name.removesuffix(".npy"))
    return found
