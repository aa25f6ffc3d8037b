"""Names of stored matrices: ``path``, ``path::member``, or the URL of a zarr store."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import StoreError

_FORMATS = ("zarr", "npy", "npz", "hdf5")
DEFAULT_MEMBER = "matrix"  # name of an output in a container if the user gives none
# The first "suffix::" splits, so that folders may contain "::" themselves.
_MEMBER = re.compile(r"(?is)(?P<path>.*?\.(zarr|npy|npz|h5|hdf5))/*::(?P<member>.*)")
# zarr's own spelling for a member of a store: path.zarr/member.
_INSIDE = re.compile(r"(?is)(?P<path>.*?\.zarr)/+(?P<member>.*[^/])/*")
_FILE_URL = re.compile(r"(?:file|local)://(?=/)", re.IGNORECASE)


@dataclass(frozen=True)
class Location:
    """Absolute path or URL, member inside it (None if not named), and format."""

    path: str
    member: str | None
    format: str

    def __str__(self) -> str:
        return self.path if self.member is None else f"{self.path}::{self.member}"


def parse_location(path: str | os.PathLike[str]) -> Location:
    """Split ``path::member`` and tell the format from the suffix of the path."""
    text = _FILE_URL.sub("", os.fsdecode(path))
    file, member = text, None
    match = _MEMBER.fullmatch(text)
    if match is None and _find_format(text) not in _FORMATS:
        match = _INSIDE.fullmatch(text)
    if match:
        file, member = match["path"], match["member"]
    name = _find_format(file)
    if name not in _FORMATS:
        given = f"ends in '.{name}'" if name else "has no suffix"
        raise StoreError(
            f"{file.partition('::')[0]!r} {given}, but matrices are stored as .zarr, "
            ".npy, .npz, .h5 or .hdf5",
            "Rename or convert it, or write path::member",
            "path-suffix",
        )
    if member is not None:
        member = _clean_member(text, name, member)
    if "\0" in file:
        problem = f"{file!r} has a zero character, which no path may have"
        raise StoreError(problem, "Name another file", "path-zero")
    if "://" not in file:
        return Location(make_absolute(file), member, name)
    protocol, _, place = file.partition("://")
    if "@" in place.partition("/")[0]:
        raise StoreError(
            "the URL contains a user name, and outputs record the URLs of their inputs",
            "Give credentials in the environment or in the configuration of fsspec",
            "url-credentials",
        )
    if name != "zarr" or protocol.lower() in ("file", "local"):
        problem = f"{file!r} is a URL, but only zarr stores are read at URLs"
        remedy = "Copy it to a file, or convert it to zarr"
        raise StoreError(problem, remedy, "url-format")
    return Location(file.rstrip("/"), member, name)


def make_absolute(path: str) -> str:
    """Return the absolute path of a file: a worker may run in another folder.

    What stands before ".." may be a link, and ".." is then above where it leads.
    """
    folder, name = os.path.split(path)
    folder, name = (path, "") if name == ".." else (folder, name)
    try:
        if ".." in Path(folder).parts:
            folder = os.path.realpath(folder)
        return os.path.abspath(os.path.join(folder, name))
    except FileNotFoundError:
        text = f"{path!r} is relative to the working directory, which has been removed"
        raise StoreError(text, "Change to another folder", "no-folder") from None


def _find_format(file: str) -> str:
    suffix = os.path.splitext(file.rstrip("/"))[1].lower()[1:]
    return "hdf5" if suffix == "h5" else suffix


def _clean_member(text: str, format_name: str, member: str) -> str:
    cleaned = member.removesuffix(".npy") if format_name == "npz" else member.strip("/")
    # A member must not lead out of its container, neither to read nor to write.
    parts = cleaned.split("/")
    if (
        format_name == "npy"
        or any(part in {"", ".", ".."} for part in parts)
        or "\0" in cleaned
        # HDF5 and zip files hold names as UTF-8.
        or (format_name != "zarr" and re.search("[\ud800-\udfff]", cleaned))
    ):
        raise StoreError(
            f"{text!r} names a member {member!r}, which no .{format_name} file has",
            "Write 'path::group/name', or only the path of a .npy file",
            "path-member",
        )
    return cleaned
