"""Files in memory that represent blocks on a device while their owner holds them.

These files have no name, unlike files in /dev/shm: the kernel frees a file as soon as
no process has it open, so nothing is left behind however a process ends. Other
processes find the file under /proc, where Linux admits whoever may inspect its owner:
the same user, in the same namespace of processes.
"""

import os
from typing import NamedTuple
from weakref import finalize


class Ticket(NamedTuple):
    """The place of a lease, for other processes; `nbytes` are those of the block.

    `identity` is that of the file on this kernel: in another namespace the same numbers
    lead elsewhere, and later they may lead to another file.
    """

    process: int
    descriptor: int
    identity: tuple[int, int]
    nbytes: int

    @property
    def path(self) -> str:
        """The file, as long as its owner holds it."""
        return f"/proc/{self.process}/fd/{self.descriptor}"


class LeaseEndedError(OSError):
    """The sender of a block has let go of it, or has gone."""


class Lease:
    """An empty file in memory, until it is closed."""

    def __init__(self, nbytes: int) -> None:
        descriptor = os.memfd_create("twom-dist")
        self._end = finalize(self, os.close, descriptor)
        os.fchmod(descriptor, 0o600)
        found = os.fstat(descriptor)
        identity = found.st_dev, found.st_ino
        self.ticket = Ticket(os.getpid(), descriptor, identity, nbytes)

    def close(self) -> None:
        """Let go."""
        self._end()


def is_held(ticket: Ticket) -> bool:
    """Tell whether the owner of a lease lives and has not let go of it."""
    try:
        found = os.stat(ticket.path)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == ticket.identity
