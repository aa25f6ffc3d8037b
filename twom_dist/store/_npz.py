"""``.npz`` files: a zip archive of ``.npy`` members."""

from collections.abc import Container
from functools import partial
from typing import IO, Any, Self
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from ._errors import store_errors
from ._location import DEFAULT_MEMBER, Location
from ._matrix import (
    MATRIX_AXES,
    VECTOR_AXES,
    Region,
    StoredMatrix,
    name_member,
    refuse_member,
)
from ._npy import READ_BYTES, NpyHeader, check_size, read_header, read_region
from ._tree import stamp_file

# Largest compressed member, in bytes, that a job reads: 2048 x 2048 complex numbers,
# whose product took 7 s instead of 2.3 (AMD EPYC, 2 shared cores).
_MOST_UNPACKED = 2**26
# Most bytes that one compressed byte may stand for: https://zlib.net/zlib_tech.html
_MOST_DEFLATED = 1032


class NpzMatrix(StoredMatrix):
    """A member of an archive; a compressed one is unpacked whole for every read."""

    @classmethod
    def find(cls, location: Location) -> Self:
        stamp = stamp_file(location.path)
        with ZipFile(location.path) as archive:
            location = name_member(location, partial(_find_arrays, archive))
            header, info, _ = _read_member(archive, location)
            found = cls._checked(location, header, None, stamp)
            check_size(location, header, _most_bytes(info))
        return found

    @staticmethod
    def read_array(location: Location) -> Any:
        with np.load(location.path, allow_pickle=False) as archive:
            if location.member in archive:
                return archive[location.member]
        with ZipFile(location.path) as archive:
            raise refuse_member(location, _find_arrays(archive, VECTOR_AXES))

    @staticmethod
    def list_others(path: str) -> list[str]:
        """List all other members."""
        with ZipFile(path) as archive:
            names = (name.removesuffix(".npy") for name in archive.namelist())
            return [name for name in names if name != DEFAULT_MEMBER]

    def check_content(self) -> None:
        with store_errors(self.location, "read"), ZipFile(self.path) as archive:
            _, info, _ = _read_member(archive, self.location)
            if info.compress_type != ZIP_STORED and info.file_size > _MOST_UNPACKED:
                raise StoreError(
                    f"{str(self.location)!r} is compressed, so reading each tile would "
                    f"unpack all of its {info.file_size} bytes; {_MOST_UNPACKED} are "
                    "allowed",
                    "Store it as .npy, or without compression: np.savez",
                    "npz-compressed",
                )
            with archive.open(info) as stream:
                _read_on(stream)

    def _read(self, region: Region) -> NDArray[Any]:
        with ZipFile(self.path) as archive:
            header, info, start = _read_member(archive, self.location)
            self._check_unchanged(header)
            if info.compress_type == ZIP_STORED:
                header = header._replace(offset=start + header.offset)
                with open(self.path, "rb") as stream:
                    return read_region(stream, self.path, header, region)
            member: Any = archive.open(info)
            with member:
                # Seeking unpacks what it passes over, at most this much at once.
                member.MAX_SEEK_READ = READ_BYTES
                found = read_region(member, self.path, header, region)
                _read_on(member)
                return found


def _read_on(stream: IO[bytes]) -> None:
    """Read a member to its end, where zipfile compares its checksum."""
    while stream.read(READ_BYTES):
        pass


def _read_member(
    archive: ZipFile, location: Location
) -> tuple[NpyHeader, ZipInfo, int]:
    """Return the header of a member, its entry, and the offset at which it begins."""
    name = f"{location.member}.npy"
    if name not in archive.namelist():
        raise refuse_member(location, _find_arrays(archive))
    with archive.open(name) as stream:
        assert archive.fp is not None
        # Opening a member reads its local header, behind which the member begins.
        start = archive.fp.tell()
        return read_header(stream), archive.getinfo(name), start


def _most_bytes(info: ZipInfo) -> int:
    """Bound the bytes of a member, even if the archive claims more."""
    ratio = {ZIP_STORED: 1, ZIP_DEFLATED: _MOST_DEFLATED}.get(info.compress_type)
    if ratio is None:
        return info.file_size
    return min(info.file_size, ratio * info.compress_size)


def _find_arrays(archive: ZipFile, axes: Container[int] = MATRIX_AXES) -> list[str]:
    found = []
    for name in archive.namelist():
        if name.endswith(".npy"):
            with archive.open(name) as stream:
                if len(read_header(stream).shape) in axes:
                    found.append(name.removesuffix(".npy"))
    return found
