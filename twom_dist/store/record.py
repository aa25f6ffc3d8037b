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

Cell = tuple[int, int]


@dataclass
class Record:
    """Which tiles of an unfinished output are on disk.

    A hidden file beside the output, one JSON text to a line: what is being made and
    the name of the temporary that holds it, and then, as they come, another name, and
    the tiles that are whole. Lines are only added, and each is synced: a kill, or a
    power cut, costs what followed the last one. Who has a record open holds a lock on
    it.

    Attributes
    ----------
    path : str
        Of the record: ``.C.zarr.resume`` for ``C.zarr``.
    subject : dict
        What is being made, as the caller describes it.
    temporary : str
        Path of the unfinished output.
    finished : set of tuple of int
        Indices of the tiles.
    """

    path: str
    subject: dict[str, Any]
    temporary: str
    finished: set[Cell] = field(default_factory=set)
    _stream: IO[bytes] | None = None

    @property
    def target(self) -> str:
        """Path of the output."""
        return _target_of(self.path)

    def add(self, cells: Iterable[Cell]) -> None:
        """Record tiles that are on disk."""
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
        """Let go of the record; it stays for a run that takes over."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def remove(self) -> None:
        """Remove the record alone."""
        with store_errors(self.path, "removed"):
            if os.path.exists(self.path):
                os.unlink(self.path)
        self.close()

    def discard(self) -> None:
        """Remove the record and the unfinished output that it tells of.

        Raises
        ------
        StoreError
            The system refuses to.
        """
        # Out of reach of a process that still writes to it.
        self.move(make_temporary_name(self.target))
        # The record first: it must not tell of tiles of which a part has gone.
        self.remove()
        with store_errors(self.temporary, "removed"):
            remove(self.temporary)

    def _append(self, entry: dict[str, Any]) -> None:
        assert self._stream is not None
        with store_errors(self.path, "written"):
            self._stream.write(json.dumps(entry).encode() + b"\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())


def record_path(output: str | os.PathLike[str]) -> str:
    """Name the record of an output.

    Examples
    --------
    >>> record_path("/data/C.h5::g/C")
    '/data/.C.h5.resume'
    """
    folder, name = os.path.split(os.path.realpath(parse_location(output).path))
    return os.path.join(folder, f".{name}.resume")


def _target_of(path: str) -> str:
    """Path of the output that a record is of."""
    folder, name = os.path.split(path)
    return os.path.join(folder, name.removeprefix(".").removesuffix(".resume"))


def create_record(
    output: str | os.PathLike[str], temporary: str, subject: dict[str, Any]
) -> Record:
    """Start the record of a temporary.

    Raises
    ------
    StoreError
        There is one already, of another run, or the system refuses to write.
    """
    path = record_path(output)
    with store_errors(path, "written"):
        try:
            stream = open(path, "xb")  # noqa: SIM115  (held until it is closed)
        except FileExistsError:
            raise StoreError(
                f"another run has begun to write {os.fspath(output)!r} meanwhile; let "
                "it finish, or choose another name."
            ) from None
        _lock(stream, output)
        record = Record(path, subject, temporary, _stream=stream)
        name = os.path.basename(temporary)
        try:
            record._append({"subject": subject, "temporary": name})
        except BaseException:
            # Half a line would block whoever comes next.
            record.remove()
            raise
        sync_path(os.path.dirname(path))
    return record


def open_record(output: str | os.PathLike[str]) -> Record | None:
    """Open and lock what an earlier run has left of an output, if anything.

    Raises
    ------
    StoreError
        Another run holds it, or it is damaged.
    """
    path = record_path(output)
    try:
        stream = open(path, "r+b")  # noqa: SIM115  (held until it is closed)
    except FileNotFoundError:
        return None
    except OSError as error:
        with store_errors(path, "read"):
            raise error
    try:
        _lock(stream, output)
        # The run that had it locked may have removed it meanwhile.
        record = _read(path, stream) if _is_there(path, stream) else None
    except BaseException:
        stream.close()
        raise
    if record is None:
        stream.close()
    return record


def _lock(stream: IO[bytes], output: str | os.PathLike[str]) -> None:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreError(
            f"{os.fspath(output)!r} is being written by another run; let it finish, or "
            "choose another name."
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def _is_there(path: str, stream: IO[bytes]) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False


def _read(path: str, stream: IO[bytes]) -> Record | None:
    """Read all whole lines; None where what they tell of is gone."""
    text = stream.read()
    whole = text[: text.rfind(b"\n") + 1]
    try:
        entries = [json.loads(line) for line in whole.splitlines()]
        names = [entry["temporary"] for entry in entries if "temporary" in entry]
        cells = [(i, j) for x in entries for i, j in x.get("finished", [])]
        subject = dict(entries[0]["subject"]) if entries else {}
        # What is named is written to, renamed and removed. The first line names one.
        known = all(is_temporary_name(name, _target_of(path)) for name in names)
        if not known or (text and not names):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StoreError(_describe_damage(path)) from None
    folder = os.path.dirname(path)
    found = [x for x in (os.path.join(folder, n) for n in names) if os.path.exists(x)]
    if not found:
        # Killed before anything was finished, or after all was in its place.
        os.unlink(path)
        return None
    # What follows the last whole line was cut short.
    stream.truncate(len(whole))
    stream.seek(len(whole))
    return Record(path, subject, found[-1], set(cells), stream)


def _describe_damage(path: str) -> str:
    """Say what to remove: also what the record may have told of."""
    folder, target = os.path.dirname(path), _target_of(path)
    left = sorted(x for x in os.listdir(folder) if is_temporary_name(x, target))
    also = f" and {list_names(left)} beside it" if left else ""
    return f"{path!r} is damaged; remove it{also}, and start again without it."
