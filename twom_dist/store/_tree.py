"""Where zarr arrays lie: folders, and prefixes of object stores, named by URLs."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from twom_dist.errors import StoreError
from twom_dist.store._checks import stamp_file
from twom_dist.store._publish import remove, sync_path

# What tells a new object from the old one, by the names of several stores.
_MARKS = ("ETag", "etag", "md5Hash", "mtime", "updated", "created")


def is_url(path: str) -> bool:
    """Tell a URL from a path."""
    return "://" in path


def zarr_target(path: str) -> Path | str:
    """Return what zarr takes for a path; a str of an odd name might pass for a URL."""
    return path if is_url(path) else Path(path)


def exists(path: str) -> bool:
    """Tell whether there is a file, a folder, an object or a prefix."""
    if is_url(path):
        fs, place = _open(path)
        return bool(fs.exists(place))
    return os.path.lexists(path)


def check_there(path: str) -> None:
    """Raise FileNotFoundError, or what else keeps a store from being read."""
    if not is_url(path):
        os.stat(path)
    elif not exists(path):
        raise FileNotFoundError("there is nothing under this address")


def stamp_object(path: str) -> str:
    """Return what changes when a file or object is rewritten."""
    if not is_url(path):
        return stamp_file(path)
    fs, place = _open(path)
    return _mark(fs.info(place))


def list_files(path: str) -> Iterator[str]:
    """List all files below a folder or prefix, relative to it; none is looked at."""
    if is_url(path):
        yield from (name for name, _ in _find(path))
        return
    for folder, _, names in os.walk(path):
        inside = "" if folder == path else f"{os.path.relpath(folder, path)}/"
        yield from (inside + name for name in names)


def list_sizes(path: str) -> dict[str, int]:
    """Measure all files below a folder or prefix; names are relative to it."""
    if is_url(path):
        return {name: int(info["size"]) for name, info in _find(path)}
    sizes = {}
    for name in list_files(path):
        # What has gone meanwhile is not there.
        with suppress(FileNotFoundError):
            sizes[name] = os.stat(os.path.join(path, name)).st_size
    return sizes


def stamp_all(path: str) -> str:
    """Return what changes when any file below a folder or prefix does.

    Each file of a folder is looked up; object stores tell of all in their listings.
    """
    if is_url(path):
        found = sorted((name, _mark(info)) for name, info in _find(path))
        return f"{len(found)}-{hash_text(repr(found))}"
    count = size = latest = 0
    for name in list_files(path):
        status = os.stat(os.path.join(path, name))
        count, size = count + 1, size + status.st_size
        latest = max(latest, status.st_mtime_ns)
    return f"{count}-{size}-{latest}"


def hash_text(text: str) -> str:
    """Return a short hash that is the same in every process."""
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()[:16]


def sync_object(path: str) -> None:
    """Wait until a file is on disk; an object is there when it has been written."""
    if not is_url(path):
        sync_path(path)


def remove_tree(path: str) -> None:
    """Remove a file or folder, or all objects under a prefix, if there are any."""
    if not is_url(path):
        remove(path)
        return
    fs, place = _open(path)
    with suppress(FileNotFoundError):
        fs.rm(place, recursive=True)


def _find(path: str) -> list[tuple[str, dict[str, Any]]]:
    fs, place = _open(path)
    start = place.rstrip("/") + "/"
    try:
        found = fs.find(place, detail=True)
    except FileNotFoundError:
        return []
    return [(name.removeprefix(start), info) for name, info in found.items()]


def _mark(info: dict[str, Any]) -> str:
    mark = next((info[name] for name in _MARKS if info.get(name)), "")
    return f"{info.get('size')}-{mark}"


def _open(path: str) -> tuple[Any, str]:
    """Open the file system of a URL; what it lists is never taken from a cache."""
    from fsspec.core import url_to_fs

    try:
        fs, place = url_to_fs(path, use_listings_cache=False)
    except ImportError as error:
        raise StoreError(
            f"{path!r} needs a package that is missing ({error})",
            "Run pip install 'twom-dist[cloud]'",
            "no-cloud",
        ) from error
    except ValueError as error:
        raise StoreError(
            f"{path!r} is not an address that fsspec knows ({error})",
            "Use s3://, gs:// or another of its protocols, or a path",
            "unknown-protocol",
        ) from error
    fs.invalidate_cache()
    return fs, place
