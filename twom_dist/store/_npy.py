"""NumPy's files: one header and the elements."""

import math
import os
from threading import Lock
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.lib import format as npy_format

from ..errors import StoreError
from ..typing import Array
from ._location import Location
from ._matrix import Region, StoredMatrix
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
            header = _read_header(stream)
            found = cls._of_array(location, header, None, stamp, pairs)
            available = os.fstat(stream.fileno()).st_size
        needed = header.offset + math.prod(header.shape) * header.dtype.itemsize
        if available < needed:
            problem = (
                f"{str(location)!r} is truncated: its header asks for {needed} bytes, "
                f"but it has {available}"
            )
            raise StoreError(problem, "Copy or write it again", "file-truncated")
        return found

    @staticmethod
    def read_array(location: Location) -> Any:
        return np.load(location.path, allow_pickle=False)

    def _read(self, region: Region) -> Array:
        with open(self.path, "rb") as stream:
            header = _read_header(stream)
            self._check_unchanged(header)
            return _read_region(stream, self.path, header, region)


def _read_header(stream: IO[bytes]) -> NpyHeader:
    """Parse the header at the start of a stream; nothing is ever unpickled."""
    with _PARSING:
        version = npy_format.read_magic(stream)
        if version not in _READERS:
            raise ValueError(f"version {version[0]}.{version[1]} is not known")
        fields = _READERS[version](stream)
    return NpyHeader(*fields, stream.tell())


def _read_region(stream: Any, path: str, header: NpyHeader, region: Region) -> Array:
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
        found = _read_region(stream, path, flat, (rows, slice(2 * start, 2 * stop)))
        return found.reshape(len(found), stop - start, 2)
    places = (slice(start + x, stop + x) for x in (0, n))
    parts = [_read_region(stream, path, flat, (rows, x)) for x in places]
    return np.ascontiguousarray(np.stack(parts, axis=-1))
