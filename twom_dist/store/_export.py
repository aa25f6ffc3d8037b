"""Conversion of a finished array into the other formats, and its final name."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from zipfile import ZIP_STORED, ZipFile

from numpy.lib import format as npy_format

from ..errors import StoreError
from ._errors import store_errors
from ._location import DEFAULT_MEMBER, Location
from ._tree import check_kind, remove, stamp_file, sync
from .output import MANIFEST, Output, read_manifest

_LONGEST = 8192  # longest side of a chunk: HDF5 counts its bytes in 32 bits


def export(output: Output, location: Location, path: str) -> str:
    """Write an output to `path` in the format of `location`; return the file's path.

    An output that stays a zarr store is not copied: the path of its store is returned.
    """
    if location.format == "zarr":
        return output.store
    member = location.member or DEFAULT_MEMBER
    if location.format == "hdf5":
        there = location.member is not None and os.path.exists(location.path)
        if there:
            shutil.copyfile(location.path, path)
        _write_hdf5(output, path, member, "r+" if there else "w")
        return path
    plain = f"{path}.npy" if location.format == "npz" else path
    _write_npy(output, plain)
    if plain != path:
        with ZipFile(path, "w", ZIP_STORED) as archive:
            archive.write(plain, f"{member}.npy")
        remove(plain)
    return path


def _write_npy(output: Output, path: str) -> None:
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
        for (rows, columns), tile in output.read():
            whole = columns == slice(0, n)
            lines = tile.reshape(1, -1) if whole else tile
            for i, line in enumerate(lines, start=rows.start):
                stream.seek(start + (i * n + columns.start) * itemsize)
                stream.write(line.data)


def _write_hdf5(output: Output, path: str, member: str, mode: str) -> None:
    """Write a dataset, in the place of an old one, in chunks of tiles or parts of them.

    `mode`: "w" makes the file, and "r+" keeps what else it holds.
    """
    import h5py

    chunks = tuple(min(side, _LONGEST) for side in output.tile)
    # Without a chunk cache a full disk shows here and not when the file is closed:
    # HDF5 cannot close a file whose cached chunks it cannot write.
    with h5py.File(path, mode, rdcc_nbytes=0) as file:
        if member in file:
            del file[member]
        dataset = file.create_dataset(
            member,
            shape=output.shape,
            dtype=output.dtype,
            chunks=None if 0 in output.shape else chunks,
        )
        dataset.attrs[MANIFEST] = json.dumps(read_manifest(output.open().attrs))
        for region, tile in output.read():
            dataset[region] = tile


def publish(finished: str, target: str) -> None:
    """Give a file or folder its name, or leave the old one in place.

    The new one gets the permissions of the old one. An old folder moves aside; a run
    that is killed at that moment leaves both, and the next run ends what it began.
    """
    if os.path.lexists(target):
        shutil.copymode(target, finished)
    if not (os.path.isdir(finished) and os.path.isdir(target)):
        os.replace(finished, target)
    else:
        aside = f"{finished}.old"
        os.rename(target, aside)
        try:
            os.rename(finished, target)
        except OSError:
            os.rename(aside, target)
            raise
    sync(os.path.dirname(target))


def check_member(location: Location, overwrite: bool) -> None:
    """Refuse a member that would take more from its file than its own dataset."""
    path, member = location.path, str(location.member)
    if location.format != "hdf5":
        problem = f"{path!r} exists, and members are added to HDF5 files only"
        remedy = "Name a container that does not exist yet"
        raise StoreError(problem, remedy, "container-exists")
    with store_errors(path, "read"):
        check_kind(path)
        found = _look_for(path, member)
    if found == "is a dataset" and not overwrite:
        raise refuse_existing(str(location))
    if found not in ("", "is a dataset"):
        problem = f"{str(location)!r} {found}, and only a dataset is replaced"
        raise StoreError(problem, "Choose another name", "output-holds-others")


def refuse_existing(name: str) -> StoreError:
    """Return the error for an output that exists and is not to be replaced."""
    remedy = "Choose another name, or replace it (overwrite=True)"
    return StoreError(f"{name!r} exists", remedy, "output-exists")


def _look_for(path: str, member: str) -> str:
    """Tell what has the name of a member, or ends the way to it; empty if nothing."""
    import h5py

    with _open(path) as file:
        node = file
        for name in member.split("/"):
            if not isinstance(node, h5py.Group):
                return f"leads through a {type(node).__name__.lower()}"
            link = node.get(name, getlink=True)
            if link is None:
                return ""
            # Another file, or another name in this one, would be written to.
            if not isinstance(link, h5py.HardLink):
                return "is a link, or leads through one"
            node = node[name]
        return f"is a {type(node).__name__.lower()}"


@contextmanager
def exclude_writers(location: Location) -> Iterator[Callable[[], None]]:
    """Keep programs that write out of a file; yield a check that it is as it was.

    The lock of HDF5 keeps them out, and the check finds them where there are no locks.
    """
    if location.member is None:
        yield lambda: None
        return
    path, there = location.path, os.path.exists(location.path)

    def check() -> None:
        if (stamp_file(path) if os.path.exists(path) else None) != stamp:
            raise StoreError(
                f"{path!r} changed while {location.member!r} was written beside it",
                "Run the same job again, and leave the file alone meanwhile",
                "container-changed",
            )

    with _open(path) if there else nullcontext():
        stamp = stamp_file(path) if there else None
        yield check


def _open(path: str) -> Any:
    """Open a file that no program writes to, this one included."""
    import h5py

    file = h5py.File(path, "r")
    # Without locks, HDF5 shares what this process has open, data on their way included.
    if file.mode != "r":
        file.close()
        problem = f"{path!r} is open for writing in this process"
        raise StoreError(problem, "Close it first", "file-busy")
    return file
