"""NumPy's files: ``.npy``, one header and the elements; ``.npz``, a zip of these."""

import math
import os
from functools import partial
from threading import Lock
from typing import IO, Any, Literal, NamedTuple, Self
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy_format

from ..errors import StoreError
from ..typing import Array
from ._location import DEFAULT_MEMBER, Location
from ._matrix import Region, StoredMatrix, name_member, no_such_member
from ._tree import stamp_file

# NumPy parses a header as Python, and CPython 3.11 may fail when two threads do so at
# once: SystemError, "AST constructor recursion depth mismatch".
_PARSING = Lock()

# Version 3 differs in the encoding of names of fields, which no matrix has.
_READERS = dict.fromkeys(((2, 0), (3, 0)), npy_format.read_array_header_2_0)
_READERS[1, 0] = npy_format.read_array_header_1_0


class NpyHeader(NamedTuple):
    """Shape, order and dtype of an array, and the offset of its first byte."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    offset: int


class NpyMatrix(StoredMatrix):
    """A file that is one array."""

    @classmethod
    def find(cls, location: Location, pairs: bool) -> Self:
        stamp = stamp_file(location.path)
        with open(location.path, "rb") as stream:
            header = read_header(stream)
            found = cls._of_array(location, header, None, stamp, pairs)
            check_size(location, header, os.fstat(stream.fileno()).st_size)
        return found

    @staticmethod
    def read_array(location: Location) -> Any:
        return np.load(location.path, allow_pickle=False)

    def _read(self, region: Region) -> Array:
        with open(self.path, "rb") as stream:
            header = read_header(stream)
            self._check_unchanged(header)
            return read_region(stream, self.path, header, region)


def read_header(stream: IO[bytes]) -> NpyHeader:
    """Parse the header at the start of a stream; nothing is ever unpickled."""
    with _PARSING:
        version = npy_format.read_magic(stream)
        if version not in _READERS:
            raise ValueError(f"version {version[0]}.{version[1]} is not known")
        fields = _READERS[version](stream)
    return NpyHeader(*fields, stream.tell())


def check_size(location: Location, header: NpyHeader, available: int) -> None:
    """Refuse a file that is shorter than its header says."""
    needed = header.offset + math.prod(header.shape) * header.dtype.itemsize
    if available < needed:
        problem = (
            f"{str(location)!r} is truncated: its header asks for {needed} bytes, but "
            f"it has {available}"
        )
        raise StoreError(problem, "Copy or write it again", "file-truncated")


def read_region(stream: Any, path: str, header: NpyHeader, region: Region) -> Array:
    """Read one rectangle, as one run of bytes for each row, or each column in it."""
    if len(region) == 3:
        return _read_pairs(stream, path, header, region)
    outer, inner = region[::-1] if header.fortran_order else region
    width = header.shape[0 if header.fortran_order else 1]
    shape = outer.stop - outer.start, inner.stop - inner.start
    lines = np.empty(shape, header.dtype)
    runs = lines.reshape(1, -1) if inner == slice(0, width) else lines
    # A memory map costs more: a rectangle of 12 MiB in rows of 430 KiB counted as
    # 680 MiB of the process, because the kernel maps pages around what is read.
    for number, run in enumerate(runs, start=outer.start):
        place = (number * width + inner.start) * header.dtype.itemsize
        stream.seek(header.offset + place)
        if stream.readinto(run.view(np.uint8)) < run.nbytes:
            problem = f"{path!r} ends before its last element"
            raise StoreError(problem, "Write it again", "file-truncated")
    values = lines.T if header.fortran_order else lines
    return np.ascontiguousarray(values, dtype=header.dtype.newbyteorder("="))


def _read_pairs(stream: Any, path: str, header: NpyHeader, region: Region) -> Array:
    """Read pairs: in Fortran order all real parts come first."""
    (rows, columns, _), (m, n, _) = region, header.shape
    start, stop, flat = columns.start, columns.stop, header._replace(shape=(m, 2 * n))
    if not header.fortran_order:
        found = read_region(stream, path, flat, (rows, slice(2 * start, 2 * stop)))
        return found.reshape(len(found), stop - start, 2)
    places = (slice(start + x, stop + x) for x in (0, n))
    parts = [read_region(stream, path, flat, (rows, x)) for x in places]
    return np.ascontiguousarray(np.stack(parts, axis=-1))


# Largest compressed member, in bytes, that is read: 2048 x 2048 complex numbers,
# whose product took 7 s instead of 2.3 (AMD EPYC, 2 shared cores).
_MOST_UNPACKED = 2**26


class NpzMatrix(StoredMatrix):
    """A member of an archive; a compressed one is unpacked whole for every read."""

    @classmethod
    def find(cls, location: Location, pairs: bool) -> Self:
        stamp = stamp_file(location.path)
        with ZipFile(location.path) as archive:
            location = name_member(location, partial(_find_arrays, archive), pairs)
            header, info, _ = _read_member(archive, location)
            found = cls._of_array(location, header, None, stamp, pairs)
            check_size(location, header, info.file_size)
        if info.compress_type != ZIP_STORED and info.file_size > _MOST_UNPACKED:
            raise StoreError(
                f"{str(location)!r} is compressed, so reading each tile would unpack "
                f"all of its {info.file_size} bytes; {_MOST_UNPACKED} are allowed",
                "Store it as .npy, or without compression: np.savez",
                "npz-compressed",
            )
        return found

    @staticmethod
    def read_array(location: Location) -> Any:
        with np.load(location.path, allow_pickle=False) as archive:
            if location.member in archive:
                return archive[location.member]
        with ZipFile(location.path) as archive:
            raise no_such_member(location, _find_arrays(archive))

    @staticmethod
    def list_others(path: str) -> list[str]:
        with ZipFile(path) as archive:
            names = (name.removesuffix(".npy") for name in archive.namelist())
            return [name for name in names if name != DEFAULT_MEMBER]

    def _read(self, region: Region) -> Array:
        with ZipFile(self.path) as archive:
            header, info, start = _read_member(archive, self.location)
            self._check_unchanged(header)
            if info.compress_type == ZIP_STORED:
                header = header._replace(offset=start + header.offset)
                with open(self.path, "rb") as stream:
                    return read_region(stream, self.path, header, region)
            with archive.open(info) as stream:
                stream.seek(header.offset)
                # At its end zipfile compares its checksum.
                whole = np.frombuffer(stream.read(), header.dtype)
        order: Literal["F", "C"] = "F" if header.fortran_order else "C"
        whole = whole[: math.prod(header.shape)].reshape(header.shape, order=order)
        return np.array(whole[region], self.parts, order="C")


def _read_member(archive: ZipFile, place: Location) -> tuple[NpyHeader, ZipInfo, int]:
    """Return the header of a member, its entry, and the offset at which it begins."""
    name = f"{place.member}.npy"
    if name not in archive.namelist():
        raise no_such_member(place, _find_arrays(archive))
    with archive.open(name) as stream:
        assert archive.fp is not None
        # Opening a member reads its local header, behind which the member begins.
        start = archive.fp.tell()
        return read_header(stream), archive.getinfo(name), start


def _find_arrays(archive: ZipFile, axes: int | None = None) -> list[str]:
    found = []
    for name in (x for x in archive.namelist() if x.endswith(".npy")):
        with archive.open(name) as stream:
            if axes in (None, len(read_header(stream).shape)):
                found.append(name.removesuffix(".npy"))
    return found
