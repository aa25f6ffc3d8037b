"""The table of formats: what each one can do, under one contract."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from twom_dist.store import _hdf5, _npy, _npz, _zarr
from twom_dist.store._checks import Description, stamp_whole
from twom_dist.store._draft import Draft
from twom_dist.store._location import Location
from twom_dist.store._region import Region


@dataclass(frozen=True)
class Format:
    """One format: each function opens the file, does its work and closes it.

    `read` gets what `describe` found, checks that it still holds, and returns a
    fresh C-ordered array of native dtype. `write` gets values of the draft's dtype,
    C-ordered, in the shape of the region. Neither gets an empty region.
    `sync` returns when what was written to these regions outlives a power cut.
    `tidy` removes what a killed process may have left among the finished chunks, and
    `pack` turns the finished draft into the file to publish; not every format needs
    them. `stamp` changes when any part of what `describe` found is rewritten. `members`
    lists all that a container holds, and `default_member` is the name of an unnamed
    output.
    """

    describe: Callable[[Location], Description]
    read: Callable[[Description, Region], NDArray[Any]]
    create: Callable[[Draft], None]
    write: Callable[[Draft, Region, NDArray[Any]], None]
    sync: Callable[[Draft, Sequence[Region]], None]
    needed_bytes: Callable[[Draft], int]
    concurrent: bool
    is_folder: bool = False
    tidy: Callable[[Draft], None] | None = None
    stamp: Callable[[Location], str] = stamp_whole
    pack: Callable[[Draft, str], None] | None = None
    members: Callable[[str], list[str]] | None = None
    default_member: str = ""


FORMAT_TABLE = {
    "npy": Format(
        _npy.describe,
        _npy.read,
        _npy.create,
        _npy.write,
        _npy.sync,
        _npy.needed_bytes,
        concurrent=True,
    ),
    "npz": Format(
        _npz.describe,
        _npz.read,
        _npz.create,
        _npz.write,
        _npz.sync,
        _npz.needed_bytes,
        concurrent=False,
        pack=_npz.pack,
        members=_npz.members,
        default_member=_npz.DEFAULT_MEMBER,
    ),
    "hdf5": Format(
        _hdf5.describe,
        _hdf5.read,
        _hdf5.create,
        _hdf5.write,
        _hdf5.sync,
        _hdf5.needed_bytes,
        concurrent=False,
        members=_hdf5.members,
        default_member=_hdf5.DEFAULT_MEMBER,
    ),
    "zarr": Format(
        _zarr.describe,
        _zarr.read,
        _zarr.create,
        _zarr.write,
        _zarr.sync,
        _zarr.needed_bytes,
        concurrent=True,
        is_folder=True,
        tidy=_zarr.tidy,
        stamp=_zarr.stamp,
        members=_zarr.members,
    ),
}
