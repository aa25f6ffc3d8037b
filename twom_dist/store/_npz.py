"""``.npz`` files: a zip archive of ``.npy`` members."""

import struct
import zipfile
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from twom_dist.errors import StoreError
from twom_dist.store import _npy as npy
from twom_dist.store._checks import (
    Description,
    check_unchanged,
    choose_member,
    count_whole,
    no_provenance,
    refuse_member,
    stamp_file,
    stamp_whole,
)
from twom_dist.store._location import Location
from twom_dist.store._publish import remove
from twom_dist.store._region import Region
from twom_dist.store.output import Output

IS_FOLDER = False
DEFAULT_MEMBER = "matrix"
# The fixed part of a local file header; the last two fields are the lengths of the
# name and the extra field. PKWARE APPNOTE 6.3.10, section 4.3.7.
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_LOCAL_SIGNATURE = b"PK\x03\x04"

stamp = stamp_whole
count_chunks = count_whole
provenance = no_provenance


def describe(location: Location) -> Description:
    """Read the directory of the archive and the header of the member."""
    fingerprint = stamp_file(location.path)
    with zipfile.ZipFile(location.path) as archive:
        member = location.member
        if member is None:
            member = choose_member(location, _matrices(archive))
        found = Location(location.path, member, location.format)
        header = _member_header(archive, found)
    return Description(found, header.shape, header.dtype, None, fingerprint)


def read(expected: Description, region: Region) -> NDArray[Any]:
    """Read one rectangle; a compressed member is decompressed whole for it."""
    location = expected.location
    with zipfile.ZipFile(location.path) as archive:
        header = _member_header(archive, location)
        check_unchanged(expected, header.shape, header.dtype)
        info = archive.getinfo(f"{location.member}.npy")
        if info.compress_type == zipfile.ZIP_STORED:
            start = _data_start(location, info)
            return npy.read_region(location.path, header, region, start)
        with archive.open(info) as stream:
            whole = npy_format.read_array(stream, allow_pickle=False)
    return np.array(whole[region], dtype=expected.dtype, order="C")


def _member_header(archive: zipfile.ZipFile, location: Location) -> npy.NpyHeader:
    name = f"{location.member}.npy"
    if name not in archive.namelist():
        raise refuse_member(location, _matrices(archive))
    with archive.open(name) as stream:
        header = npy.read_header(stream, str(location))
    npy.check_header(header, str(location), archive.getinfo(name).file_size)
    return header


def _matrices(archive: zipfile.ZipFile) -> list[str]:
    found = []
    for name in archive.namelist():
        if not name.endswith(".npy"):
            continue
        with archive.open(name) as stream:
            if len(npy.read_header(stream, name).shape) == 2:
                found.append(name.removesuffix(".npy"))
    return found


def _data_start(location: Location, info: zipfile.ZipInfo) -> int:
    with open(location.path, "rb") as stream:
        stream.seek(info.header_offset)
        fixed = stream.read(_LOCAL_HEADER.size)
    signature, name_length, extra_length = _LOCAL_HEADER.unpack(fixed)
    if signature != _LOCAL_SIGNATURE:
        raise StoreError(
            f"{str(location)!r} is damaged: its archive has no member where its "
            "directory says",
            "Copy or write it again",
            "file-damaged",
        )
    return info.header_offset + _LOCAL_HEADER.size + int(name_length + extra_length)


def members(path: str) -> list[str]:
    """List whatever an archive holds."""
    with zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def export(path: str, member: str | None, output: Output) -> str:
    """Write a ``.npy`` file, and copy it into an archive, uncompressed."""
    plain = f"{path}.npy"
    npy.export(plain, None, output)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.write(plain, f"{member or DEFAULT_MEMBER}.npy")
    remove(plain)
    return path


def export_bytes(output: Output) -> int:
    """Return the disk space of the elements, twice."""
    return 2 * npy.export_bytes(output)
