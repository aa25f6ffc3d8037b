"""``.npy`` files: one header, then the elements."""

import math
import os
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from twom_dist.errors import StoreError
from twom_dist.store._checks import (
    Description,
    check_dtype,
    check_shape,
    check_size,
    check_unchanged,
    count_whole,
    native_dtype,
    no_provenance,
    stamp_file,
    stamp_whole,
)
from twom_dist.store._location import Location
from twom_dist.store._region import Region
from twom_dist.store.output import Output

IS_FOLDER = False
DEFAULT_MEMBER = ""

stamp = stamp_whole
count_chunks = count_whole
provenance = no_provenance


@dataclass(frozen=True)
class NpyHeader:
    """Shape, dtype and order of an array, and where its first byte stands."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool
    offset: int

    @property
    def end(self) -> int:
        """The bytes of header and elements together."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: IO[bytes], name: str) -> NpyHeader:
    """Parse the header at the start of a stream; nothing is ever unpickled."""
    version = npy_format.read_magic(stream)
    if version == (1, 0):
        fields = npy_format.read_array_header_1_0(stream)
    elif version == (2, 0):
        fields = npy_format.read_array_header_2_0(stream)
    else:
        # NumPy writes version 3 only for records whose names are not ASCII.
        raise StoreError(
            f"{name!r} has npy version {version[0]}.{version[1]}, which is for "
            "records; allowed are 1.0 and 2.0",
            "Save it again as a plain matrix",
            "matrix-dtype",
        )
    shape, fortran_order, dtype = fields
    return NpyHeader(tuple(shape), dtype, bool(fortran_order), stream.tell())


def check_header(header: NpyHeader, name: str, available: int) -> None:
    """Refuse what is no matrix, before its size is compared with the file's."""
    check_shape(name, header.shape)
    check_dtype(name, header.dtype)
    check_size(name, available, header.end)


def read_region(
    path: str, header: NpyHeader, region: Region, start: int = 0
) -> NDArray[Any]:
    """Read one rectangle, a run of bytes for each of its rows, or of its columns."""
    outer, inner = region[::-1] if header.fortran_order else region
    width = header.shape[0 if header.fortran_order else 1]
    lines = np.empty((outer.stop - outer.start, inner.stop - inner.start), header.dtype)
    first = start + header.offset + outer.start * width * header.dtype.itemsize
    runs = lines.reshape(1, -1) if inner == slice(0, width) else lines
    # Not a memory map: a rectangle of 12 MiB in rows of 430 KiB counted as 680 MiB of
    # the process, with all that the kernel maps around it.
    with open(path, "rb", buffering=0) as stream:
        for number, run in enumerate(runs):
            place = number * width + inner.start
            stream.seek(first + place * header.dtype.itemsize)
            _fill(run, stream, path)
    values = lines.T if header.fortran_order else lines
    return np.ascontiguousarray(values, dtype=native_dtype(header.dtype))


def _fill(run: NDArray[Any], stream: IO[bytes], path: str) -> None:
    """Read until a row is full: the system gives at most 2 GiB at once."""
    left = run.view(np.uint8).data
    while left:
        count = stream.readinto(left)  # type: ignore[attr-defined]
        if not count:
            problem = f"{path!r} was cut while it was read"
            raise StoreError(problem, "Write it again", "file-truncated")
        left = left[count:]


def members(path: str) -> list[str]:
    """List nothing: a file is one array."""
    return []


def describe(location: Location) -> Description:
    """Read the header and compare the size of the file with it."""
    fingerprint = stamp_file(location.path)
    header = _open_header(location)
    return Description(location, header.shape, header.dtype, None, fingerprint)


def read(expected: Description, region: Region) -> NDArray[Any]:
    """Read one rectangle."""
    header = _open_header(expected.location)
    check_unchanged(expected, header.shape, header.dtype)
    return read_region(expected.location.path, header, region)


def _open_header(location: Location) -> NpyHeader:
    with open(location.path, "rb") as stream:
        header = read_header(stream, location.path)
        check_header(header, location.path, os.fstat(stream.fileno()).st_size)
    return header


def export(path: str, member: str | None, output: Output) -> str:
    """Write the header, take the space, and fill in the tiles."""
    n, itemsize = output.shape[1], output.dtype.itemsize
    fields = {
        "descr": npy_format.dtype_to_descr(output.dtype),
        "fortran_order": False,
        "shape": output.shape,
    }
    # A memory map would kill the process on a full disk.
    with open(path, "wb") as stream:
        npy_format.write_array_header_1_0(stream, fields)
        start = stream.tell()
        if size := export_bytes(output):
            os.posix_fallocate(stream.fileno(), start, size)
        for (rows, columns), tile in output.read():
            whole = columns == slice(0, n)
            lines = tile.reshape(1, -1) if whole else tile
            for i, line in enumerate(lines, start=rows.start):
                stream.seek(start + (i * n + columns.start) * itemsize)
                stream.write(line.data)
    return path


def export_bytes(output: Output) -> int:
    """Return the disk space of the elements."""
    return math.prod(output.shape) * output.dtype.itemsize
