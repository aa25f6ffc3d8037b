"""What is finished of an output, in a file beside it that outlives a killed process."""

import errno
import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import IO, Any

from twom_dist.errors import StoreError
from twom_dist.store._checks import list_names, store_errors
from twom_dist.store._location import parse_location
from twom_dist.store._publish import (
    is_temporary_name,
    make_temporary_name,
    measure_disk,
    packed_name,
    remove,
    sync_path,
)

# Of file systems that cannot lock: runs there are not kept apart.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)

_WAIT = "Let it finish, or choose another name"

Cell = tuple[int, int]


@dataclass
class Journal:
    """Which tiles of an unfinished output are on disk.

    A hidden file beside the output, which begins with the first tiles: one JSON text to
    a line, what is being made and the name of the temporary that holds it, and then, as
    they come, another name, and the tiles that are whole. Lines are only added, and
    each is synced: a kill, or a power cut, costs what followed the last one. Who has a
    journal open holds a lock on it.

    Attributes
    ----------
    target : str
        Path of the output.
    temporary : str
        Path of the unfinished output.
    subject : dict
        What is being made, as the caller describes it.
    finished : set of tuple of int
        Indices of the tiles.
    begun : bool
        Whether there is a file.
    """

    target: str
    temporary: str
    subject: dict[str, Any]
    finished: set[Cell] = field(default_factory=set)
    begun: bool = False
    _stream: IO[bytes] | None = None

    @property
    def path(self) -> str:
        """Path of the file: ``.C.zarr.resume`` for ``C.zarr``.

        Examples
        --------
        >>> Journal("/data/C.h5", "", {}).path
        '/data/.C.h5.resume'
        """
        folder, name = os.path.split(self.target)
        return os.path.join(folder, f".{name}.resume")

    def add(self, cells: Iterable[Cell]) -> None:
        """Note tiles that are on disk.

        Raises
        ------
        StoreError
            The system refuses to write, or another run has begun the file meanwhile.
        """
        if not self.begun:
            self._begin()
        new = sorted(cells)
        self._append({"finished": new})
        self.finished.update(new)

    def move(self, temporary: str) -> None:
        """Rename the temporary: whoever still writes to it fails from then on.

        What a kill has left of its archive goes.
        """
        # First the name, then the file: a kill between the two leaves the old name.
        self._append({"temporary": os.path.basename(temporary)})
        with store_errors(self.temporary, "renamed"):
            remove(packed_name(self.temporary))
            os.rename(self.temporary, temporary)
        self.temporary = temporary

    def disk_bytes(self) -> int:
        """Measure what the unfinished output takes on disk."""
        parts = (self.temporary, packed_name(self.temporary))
        return sum(measure_disk(part) for part in parts)

    def close(self) -> None:
        """Let go of the file; it stays for a run that takes over."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def remove(self) -> None:
        """Remove the file alone, if it is there."""
        if self.begun:
            with store_errors(self.path, "removed"):
                remove(self.path)
        self.begun = False
        self.close()

    def discard(self) -> None:
        """Remove the file and the unfinished output that it tells of.

        Raises
        ------
        StoreError
            The system refuses to.
        """
        # Out of reach of a process that still writes to it.
        self.move(make_temporary_name(self.target))
        # The file first: it must not tell of tiles of which a part has gone.
        self.remove()
        with store_errors(self.temporary, "removed"):
            remove(self.temporary)

    def _begin(self) -> None:
        with store_errors(self.path, "written"):
            try:
                stream = open(self.path, "xb")  # noqa: SIM115  (until it is closed)
            except FileExistsError:
                problem = f"another run has begun to write {self.target!r} meanwhile"
                raise StoreError(problem, _WAIT, "output-busy") from None
            _lock(stream, self.target)
            self._stream, self.begun = stream, True
            name = os.path.basename(self.temporary)
            try:
                self._append({"subject": self.subject, "temporary": name})
            except BaseException:
                # Half a line would block whoever comes next.
                self.remove()
                raise
            sync_path(os.path.dirname(self.path))

    def _append(self, entry: dict[str, Any]) -> None:
        assert self._stream is not None
        with store_errors(self.path, "written"):
            self._stream.write(json.dumps(entry).encode() + b"\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())


def open_journal(output: str | os.PathLike[str]) -> Journal | None:
    """Open and lock what an earlier run has left of an output, if anything.

    Raises
    ------
    StoreError
        Another run holds it, or it is damaged.
    """
    journal = Journal(os.path.realpath(parse_location(output).path), "", {}, begun=True)
    with store_errors(journal.path, "read"):
        try:
            stream = open(journal.path, "r+b")  # noqa: SIM115  (until it is closed)
        except FileNotFoundError:
            return None
    journal._stream = stream
    try:
        _lock(stream, journal.target)
        # The run that had it locked may have removed it meanwhile.
        if _is_there(journal.path, stream) and _read(journal, stream):
            return journal
    except BaseException:
        journal.close()
        raise
    journal.close()
    return None


def _lock(stream: IO[bytes], output: str) -> None:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        problem = f"{output!r} is being written by another run"
        raise StoreError(problem, _WAIT, "output-busy") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def _is_there(path: str, stream: IO[bytes]) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False


def _read(journal: Journal, stream: IO[bytes]) -> bool:
    """Read all whole lines; tell whether what they tell of is there."""
    text = stream.read()
    whole = text[: text.rfind(b"\n") + 1]
    try:
        entries = [json.loads(line) for line in whole.splitlines()]
        names = [entry["temporary"] for entry in entries if "temporary" in entry]
        journal.finished = {(i, j) for x in entries for i, j in x.get("finished", [])}
        journal.subject = dict(entries[0]["subject"]) if entries else {}
        # What is named is written to, renamed and removed. The first line names one.
        known = all(is_temporary_name(name, journal.target) for name in names)
        if not known or (text and not names):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _refuse_damaged(journal) from None
    folder = os.path.dirname(journal.path)
    found = [x for x in (os.path.join(folder, n) for n in names) if os.path.exists(x)]
    if not found:
        # Killed before anything was finished, or after all was in its place.
        os.unlink(journal.path)
        return False
    # What follows the last whole line was cut short.
    stream.truncate(len(whole))
    stream.seek(len(whole))
    journal.temporary = found[-1]
    return True


def _refuse_damaged(journal: Journal) -> StoreError:
    """Say what to remove: also what the file may have told of."""
    folder = os.path.dirname(journal.path)
    left = sorted(x for x in os.listdir(folder) if is_temporary_name(x, journal.target))
    also = f" and {list_names(left)} beside it" if left else ""
    remedy = f"Remove it{also}, and start again without it"
    return StoreError(f"{journal.path!r} is damaged", remedy, "journal-damaged")
