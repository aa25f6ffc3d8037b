"""The hidden folder in which an output is made, by one run at a time."""

import os
import shutil
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from dask.utils import format_bytes

from ..errors import StoreError
from ..typing import Cell
from . import _tree as tree
from ._errors import store_errors
from ._export import check_member, exclude_writers, export, publish, refuse_existing
from ._guards import exclude_runs, is_locked
from ._location import Location, parse_location
from ._matrix import matrix_class
from .output import Manifest, Output, open_output

# Arrays of an output on its disk at a time: tiles, export, and an .npz's own .npy file.
_COPIES = {"zarr": 1, "npy": 2, "hdf5": 2, "npz": 3}
_MEMBER = "member"  # name of the manifest's entry for the member that an output becomes


class Signs(NamedTuple):
    """Signs that a run is at work on an output."""

    locked: bool | None  # whether a run holds the lock; None if that is not known
    beat: float = 0  # when a run last showed that it is alive, in seconds since 1970


@dataclass(frozen=True)
class Unfinished:
    """The hidden folder in which an output is made.

    It holds a lock file, the zarr array and the findings of an analysis.
    """

    location: Location  # that of the output; for a link, of the file it leads to

    @property
    def folder(self) -> str:
        """Path of the folder: ``.C.h5.unfinished`` for ``C.h5``."""
        folder, name = os.path.split(self.location.path)
        return os.path.join(folder, f".{name}.unfinished")

    @property
    def lock_path(self) -> str:
        """Path of the lock file."""
        return os.path.join(self.folder, "lock")

    @property
    def _look(self) -> str:
        return os.path.join(self.folder, "look")

    @property
    def _member(self) -> str:
        """Name of the array in its store; empty unless the output is a zarr store."""
        return (self.location.member or "") if self.location.format == "zarr" else ""

    def find(self) -> tuple[Output, Manifest] | None:
        """Return what an earlier run left, with its manifest."""
        left = self.find_any()
        return None if left is None or self.is_other(left[1]) else left

    def is_other(self, manifest: Manifest) -> bool:
        """Tell the unfinished output of another member of a file that exists."""
        own = self.location.member in (None, manifest.get(_MEMBER))
        return not own and os.path.exists(self.location.path)

    def find_any(self) -> tuple[Output, Manifest] | None:
        """Return what an earlier run left, of this member or another."""
        with store_errors(self.folder, "read"):
            stores = sorted(Path(self.folder).glob("*.zarr"))
        for store in stores:
            try:
                output, manifest = open_output(str(store), self._member)
                if output.id != store.stem:
                    raise ValueError("it is the output of another run")
                return output, manifest
            # A damaged file makes zarr raise errors of every kind.
            except Exception as error:
                # After a finished run the folder holds what its output replaced.
                if not tree.exists(self.location.path):
                    kind = type(error).__name__
                    named = f" {self._member!r}" if self._member else ""
                    raise StoreError(
                        f"the unfinished output in {self.folder!r} has no array{named} "
                        f"that can be continued ({kind})",
                        "Give the output its earlier name, or start anew "
                        "(overwrite=True)",
                        "unfinished-damaged",
                    ) from error
        return None

    def keep(self, look: bytes) -> None:
        """Keep the findings of an analysis."""
        draft = f"{self._look}.draft"
        with store_errors(self.folder, "written"):
            Path(draft).write_bytes(look)
            os.rename(draft, self._look)

    def find_look(self) -> bytes | None:
        """Return the findings that are kept."""
        with store_errors(self.folder, "read"), suppress(FileNotFoundError):
            return Path(self._look).read_bytes()
        return None

    def output(self, shape: Cell, tile: Cell, dtype: np.dtype[Any]) -> Output:
        """Return an output that does not exist yet."""
        id, (m, n), (mb, nb) = uuid.uuid4().hex[:12], shape, tile
        tile, path = (
            (min(mb, max(m, 1)), min(nb, max(n, 1))),
            f"{self.folder}/{id}.zarr",
        )
        return Output(path, self._member, shape, tile, dtype, id)

    def check(self, overwrite: bool, anew: bool = True) -> None:
        """Refuse a place that cannot take the output, or whose folder must stay."""
        self._check_target(overwrite)
        if anew and (obstacle := self.find_obstacle()):
            problem = f"{self.folder!r} must stay: {obstacle}"
            raise StoreError(problem, "Look inside it first", "folder-holds-others")

    def _check_target(self, overwrite: bool) -> None:
        target, form = self.location.path, self.location.format
        if not tree.exists(target):
            return
        if self.location.member is not None:
            check_member(self.location, overwrite)
            left = None
            with suppress(StoreError):  # it cannot be continued
                left = self.find_any()
            if left is not None and self.is_other(left[1]):
                raise StoreError(
                    f"{self.folder!r} holds the unfinished output of another member",
                    "Finish that job first, or remove this folder",
                    "member-unfinished",
                )
            return
        if not overwrite:
            raise refuse_existing(target)
        # A device or a pipe is neither a folder nor a file.
        replaceable = (os.path.isdir if form == "zarr" else os.path.isfile)(target)
        with store_errors(target, "read"):
            if not replaceable or matrix_class(form).list_others(target):
                remedy = "Move it away or choose another name"
                if form == "hdf5":
                    remedy += f"; a member, such as {target}::C, replaces no other"
                problem = (
                    f"{target!r} is not just a {form} matrix, and whatever else it is "
                    "or holds would be lost"
                )
                raise StoreError(problem, remedy, "output-holds-others")

    def check_space(self, output: Output) -> None:
        """Refuse an output that does not fit on the disk; what is written counts."""
        needed_bytes = _COPIES[self.location.format] * output.nbytes
        needed_bytes -= disk_bytes(self.folder)
        folder = os.path.dirname(self.folder)
        free_bytes = shutil.disk_usage(folder).free
        if needed_bytes > free_bytes:
            raise StoreError(
                f"the output needs {format_bytes(needed_bytes)}, but {folder!r} has "
                f"only {format_bytes(free_bytes)} free",
                "Free some space or choose another folder",
                "disk-full",
            )

    def lock(self) -> AbstractContextManager[None]:
        """Make the folder and keep other runs out of it; raise if one is in it."""
        return exclude_runs(self.folder, self.location.path)

    def watch(self) -> Signs:
        """Look for signs of a run, whose lock other hosts may not see."""
        with (
            store_errors(self.folder, "read"),
            suppress(FileNotFoundError),
            open(self.lock_path, "rb") as stream,
        ):
            return Signs(is_locked(stream), os.fstat(stream.fileno()).st_mtime)
        return Signs(False)

    def start(self, output: Output, manifest: Manifest) -> None:
        """Remove earlier files, and create the array."""
        self._clear()
        output.create(manifest | {_MEMBER: self.location.member})

    def finish(
        self, output: Output, overwrite: bool, commit: Callable[[], None] = lambda: None
    ) -> None:
        """Export the finished array to the output's format, and give it its name.

        If that fails, or the target may no longer be replaced, the array stays.
        """
        output.complete()
        path = os.path.join(self.folder, os.path.basename(self.location.path))
        with (
            store_errors(self.location, "written"),
            exclude_writers(self.location) as check_same,
        ):
            # An earlier run may have left a file there, or someone a link.
            tree.remove(path)
            finished = export(output, self.location, path)
            tree.sync(finished)
            # Since the first check the target may have become something else.
            self._check_target(overwrite)
            commit()
            check_same()
            publish(finished, self.location.path)
        # The output is in place, so a failure to clean up is not an error.
        with suppress(StoreError):
            self.remove()

    def find_obstacle(self) -> str:
        """Return the reason why files in the folder must stay; empty if none must."""
        aside = any(Path(self.folder).glob("*.old"))
        if aside and not os.path.lexists(self.location.path):
            # A run was killed between the two renames of `publish`.
            output = os.path.basename(self.location.path)
            return f"it holds the old {output!r}; run the same job again to finish"
        return ""

    def _clear(self) -> None:
        """Remove what jobs have made, except the lock file."""
        folder, name = Path(self.folder), os.path.basename(self.location.path)
        with store_errors(self.folder, "removed"):
            for store in folder.glob("*.zarr"):
                # If a kill leaves part of the store, no run may continue it.
                os.rename(store, f"{store}.draft")
            # An .npz is made from an .npy file.
            files = "look", "look.draft", name, f"{name}.npy"
            for path in (*folder.glob("*.zarr.*"), *map(folder.joinpath, files)):
                tree.remove(str(path))

    def remove(self) -> None:
        """Remove the folder, the lock file last, unless something in it must stay.

        What jobs have not made stays, and the folder with it.
        """
        if self.find_obstacle():
            return
        self._clear()
        with store_errors(self.folder, "removed"):
            tree.remove(self.lock_path)
            with suppress(OSError):
                os.rmdir(self.folder)


def disk_bytes(folder: str) -> int:
    """Return the bytes that a folder takes on disk."""
    total_bytes = 0
    for name in tree.list_files(folder):
        # A file that has gone meanwhile takes no space.
        with suppress(FileNotFoundError):
            # Blocks are of 512 bytes on every system: inode(7). Holes take none.
            total_bytes += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total_bytes


def find_unfinished(path: str | os.PathLike[str]) -> Unfinished:
    """Return the place where an output is made; it need not exist."""
    location = parse_location(path)
    if tree.is_url(location.path):
        raise StoreError(
            f"{str(location)!r} is a URL, and jobs write files alone",
            "Name a file; or open the inputs with zarr, call the routine, and write "
            "its lazy result with to_zarr",
            "url-output",
        )
    # A job replaces the target of a link, not the link.
    return Unfinished(replace(location, path=os.path.realpath(location.path)))
