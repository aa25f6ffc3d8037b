"""The hidden folder in which an output is made, by one run at a time."""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twom_dist.errors import StoreError
from twom_dist.store._checks import store_errors
from twom_dist.store._formats import FORMAT_TABLE
from twom_dist.store._location import Location, parse_location
from twom_dist.store._publish import publish, remove, sync_path
from twom_dist.store._target import check_folder, check_space, check_target
from twom_dist.store._tree import is_url
from twom_dist.store.bucket import UnfinishedObject
from twom_dist.store.output import Manifest, Output, new_id, open_output

# Of file systems that cannot lock: runs there are not kept apart.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@dataclass(frozen=True)
class Unfinished:
    """The place of an output, and the folder in which it is made.

    The folder holds a file to lock, the zarr array, and, of an output in another
    format, a file that keeps room for it on the disk.

    Attributes
    ----------
    location : Location
        Of the output; its path is that of the file, where a link was given.
    """

    location: Location

    @property
    def folder(self) -> str:
        """Path of the folder: ``.C.h5.unfinished`` for ``C.h5``."""
        folder, name = os.path.split(self.location.path)
        return os.path.join(folder, f".{name}.unfinished")

    @property
    def _lock_path(self) -> str:
        return os.path.join(self.folder, "lock")

    def check_seen(self) -> None:
        """Refuse a process that does not see the folder that another one has locked."""
        with store_errors(self.folder, "written"):
            os.stat(self._lock_path)

    @property
    def _member(self) -> str:
        """Of the array in its store, which becomes the output only if it is a zarr."""
        return (self.location.member or "") if self.location.format == "zarr" else ""

    def find(self) -> tuple[Output, Manifest] | None:
        """Find what an earlier run has left, and its manifest, if anything."""
        with store_errors(self.folder, "read"):
            stores = sorted(Path(self.folder).glob("*.zarr"))
        for store in stores:
            try:
                output, manifest = open_output(str(store), self._member)
            # A damaged file makes zarr raise errors of every kind.
            except Exception as error:
                raise StoreError(
                    f"what is unfinished in {self.folder!r} holds no array "
                    f"{self._member!r} that can be continued ({type(error).__name__})",
                    "Name the output as before, or start anew with overwrite",
                    "unfinished-damaged",
                ) from error
            # What an output has replaced lies here under its name until it is removed.
            if store.stem == output.id:
                return output, manifest
        return None

    def check(self, overwrite: bool) -> None:
        """Refuse a place that cannot take the output."""
        check_folder(self.location.path)
        check_target(self.location, self.location.path, overwrite)

    def check_busy(self) -> None:
        """Refuse a place that another run writes."""
        if os.path.isdir(self.folder):
            with self.lock():
                pass

    def check_space(self, output: Output) -> None:
        """Refuse an output that the disk has no room for, beside what is there."""
        needed = output.nbytes + self._reserve_bytes(output) - disk_bytes(self.folder)
        check_space(os.path.dirname(self.folder), needed)

    def output(
        self, shape: tuple[int, int], tile: tuple[int, int], dtype: np.dtype[Any]
    ) -> Output:
        """Return an output that is not there yet."""
        id = new_id()
        store = os.path.join(self.folder, f"{id}.zarr")
        return Output(store, self._member, shape, tile, dtype, id)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Make the folder, and keep other runs out of it; refuse to where one is in."""
        path = self._lock_path
        with store_errors(self.folder, "written"):
            os.makedirs(self.folder, exist_ok=True)
            stream = open(path, "ab")  # noqa: SIM115  (until it is closed)
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise self._refuse_busy() from None
            # The run that had it locked may have removed it meanwhile.
            if not _is_there(path, stream.fileno()):
                raise self._refuse_busy()
            try:
                yield
            finally:
                with suppress(OSError):
                    if os.listdir(self.folder) == [os.path.basename(path)]:
                        remove(self.folder)

    def _refuse_busy(self) -> StoreError:
        return StoreError(
            f"{self.location.path!r} is being written by another run",
            "Let it finish, or choose another name",
            "output-busy",
        )

    def start(self, output: Output, manifest: Manifest, overwrite: bool) -> None:
        """Remove what is there, and create the array and room for what it becomes."""
        self.clear()
        output.create(manifest)
        if room := self._reserve_bytes(output):
            with store_errors(self.location, "written"), open(self._room, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, room)

    def finish(
        self,
        output: Output,
        overwrite: bool,
        commit: Callable[[], None] = lambda: None,
    ) -> None:
        """Make what was asked for of the finished array, and give it its name.

        Where that is refused, or may no longer be replaced, the array stays. `commit`
        is called at the last moment at which nothing has been replaced.
        """
        output.complete()
        with store_errors(self.location, "written"):
            finished = self._export(output)
            # It may have become something else.
            check_target(self.location, self.location.path, overwrite)
            commit()
            publish(finished, self.location.path)
        # The output is there; what is left of its making is no error.
        with suppress(StoreError):
            self.remove()

    def _export(self, output: Output) -> str:
        path = os.path.join(self.folder, os.path.basename(self.location.path))
        remove(self._room)
        form = FORMAT_TABLE[self.location.format]
        finished = form.export(path, self.location.member, output)
        sync_path(finished)
        return finished

    def _reserve_bytes(self, output: Output) -> int:
        return FORMAT_TABLE[self.location.format].export_bytes(output)

    @property
    def _room(self) -> str:
        return os.path.join(self.folder, "room")

    def clear(self) -> None:
        """Remove all but the file to lock."""
        with store_errors(self.folder, "removed"):
            for path in Path(self.folder).iterdir():
                if path.name != "lock":
                    remove(str(path))

    def remove(self) -> None:
        """Remove the folder."""
        with store_errors(self.folder, "removed"):
            self.clear()
            remove(self.folder)


def disk_bytes(folder: str) -> int:
    """Measure what a folder takes on disk."""
    total_bytes = 0
    for path, _, names in os.walk(folder):
        for name in names:
            # What has gone meanwhile takes nothing.
            with suppress(FileNotFoundError):
                # st_blocks counts 512 bytes on every system: inode(7). Holes take none.
                total_bytes += os.lstat(os.path.join(path, name)).st_blocks * 512
    return total_bytes


def _is_there(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


Place = Unfinished | UnfinishedObject


def find_unfinished(path: str | os.PathLike[str]) -> Place:
    """Return where an output is made; nothing need be there."""
    location = parse_location(path)
    if is_url(location.path):
        return UnfinishedObject(location)
    # The target of a link is replaced, not the link.
    return Unfinished(replace(location, path=os.path.realpath(location.path)))
