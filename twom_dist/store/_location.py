"""Where a matrix is stored: ``path``, ``path::member``, or a URL of a zarr store."""

import os
import re
from dataclasses import dataclass

from ..errors import StoreError

_FORMATS = ("zarr", "npy", "npz", "hdf5")
# Of an output in a container for which no name is given.
DEFAULT_MEMBER = "matrix"
# The first "suffix::" splits, so that folders may contain "::" themselves.
_MEMBER = re.compile(
    r"(?P<path>.*?\.(?:zarr|npy|npz|h5|hdf5))/*::(?P<member>.*)",
    re.IGNORECASE | re.DOTALL,
)
# As zarr itself names the member of a store.
_INSIDE = re.compile(
    r"(?P<path>.*?\.zarr)/+(?P<member>.*[^/])/*", re.IGNORECASE | re.DOTALL
)
_FILE_URL = re.compile(r"(?:file|local)://(?=/)", re.IGNORECASE)


@dataclass(frozen=True)
class Location:
    """An absolute path or a URL, the member inside (None: not named) and the format."""

    path: str
    member: str | None
    format: str

    def __str__(self) -> str:
        """Return ``path`` or ``path::member``."""
        return self.path if self.member is None else f"{self.path}::{self.member}"


def parse_location(path: str | os.PathLike[str]) -> Location:
    """Split ``path::member`` and tell the format from the suffix of the path."""
    text = _FILE_URL.sub("", os.fsdecode(path))
    if not text:
        raise StoreError("the path is empty", "Name a file", "path-empty")
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
            f"{file.partition('::')[0]!r} {given}, and matrices are kept in .zarr, "
            ".npy, .npz, .h5 or .hdf5",
            "Rename or convert it",
            "path-suffix",
        )
    if member is not None:
        member = _clean_member(text, name, member)
    if "://" not in file:
        # Workers may run in other folders: the path must not depend on the current one.
        return Location(os.path.abspath(file), member, name)
    protocol, _, place = file.partition("://")
    if "@" in place.partition("/")[0]:
        raise StoreError(
            "the URL names a user, and outputs keep the URLs of their inputs",
            "Give credentials in the environment, or as fsspec is configured",
            "url-credentials",
        )
    if name != "zarr" or protocol.lower() in ("file", "local"):
        raise StoreError(
            f"{file!r} is a URL, and only zarr stores are read and written there",
            "Copy it to a file, or convert it to zarr",
            "url-format",
        )
    return Location(file.rstrip("/"), member, name)


def _find_format(file: str) -> str:
    suffix = os.path.splitext(file.rstrip("/"))[1].lower()[1:]
    return "hdf5" if suffix == "h5" else suffix


def _clean_member(text: str, format_name: str, member: str) -> str:
    cleaned = member.removesuffix(".npy") if format_name == "npz" else member.strip("/")
    # A member must not lead out of its container, for reading or for writing.
    parts = cleaned.split("/")
    if format_name == "npy" or any(part in {"", ".", ".."} for part in parts):
        raise StoreError(
            f"{text!r} names a member {member!r}, which no .{format_name} file has",
            "Write it as 'path::group/name', and of a .npy file only the path",
            "path-member",
        )
    return cleaned
