"""Files in memory that other processes of this user and host may open while they last.

They have no name, unlike those in /dev/shm: the kernel frees one as soon as nobody has
it open or mapped, so that nothing is left behind however a process ends. Others find
one under /proc, where Linux lets in whoever may inspect its owner: the same user, in
the same namespace of processes.
"""

import ctypes
import mmap
import os
from errno import ESTALE
from functools import cache
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from ...typing import Array


class Ticket(NamedTuple):
    """The place of a lease, for other processes.

    `identity` is that of the file on this kernel: in another namespace the same numbers
    lead elsewhere, and later they may lead to another file. `nbytes`: its length, or
    what else it stands for.
    """

    process: int
    descriptor: int
    identity: tuple[int, int]
    nbytes: int = 0

    @property
    def path(self) -> str:
        """The file, as long as its owner holds it."""
        return f"/proc/{self.process}/fd/{self.descriptor}"


class LeaseEndedError(OSError):
    """The owner of a lease has let go of it, or has gone."""


class Lease:
    """A file in memory, until it is closed."""

    def __init__(self) -> None:
        self._descriptor = os.memfd_create("twom-dist")
        self._end = finalize(self, os.close, self._descriptor)
        os.fchmod(self._descriptor, 0o600)
        found = os.fstat(self._descriptor)
        identity = found.st_dev, found.st_ino
        self.ticket = Ticket(os.getpid(), self._descriptor, identity)

    def write(self, data: memoryview) -> None:
        """Fill the file with bytes."""
        done = 0
        while done < len(data):  # a call writes less than 2 GiB
            done += os.pwrite(self._descriptor, data[done:], done)

    def map(self, nbytes: int) -> Array:
        """Make the file so long, and return its bytes to be written."""
        # Without memory this is an error, the first access to a page would be a signal.
        os.posix_fallocate(self._descriptor, 0, nbytes)
        return _map(self._descriptor, nbytes, mmap.MAP_SHARED)

    def close(self) -> None:
        """Let go: who has mapped the file keeps it."""
        self._end()


def is_held(ticket: Ticket) -> bool:
    """Tell whether the owner of a lease lives and has not let go of it."""
    try:
        found = os.stat(ticket.path)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == ticket.identity


def map_lease(ticket: Ticket) -> Array:
    """Return the bytes of a lease: an array of our own, whose pages are not copied.

    It is private: what is written into it stays here. Its pages go with it.
    """
    # Opening some other file might have effects, or wait.
    if not is_held(ticket):
        raise LeaseEndedError(ESTALE, "the sender has let go of a block")
    try:
        descriptor = os.open(ticket.path, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, ProcessLookupError) as error:  # it has died just now
        raise LeaseEndedError(ESTALE, "the sender has gone") from error
    try:
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino) != ticket.identity:
            raise LeaseEndedError(ESTALE, "the sender has let go of a block")
        return _map(descriptor, ticket.nbytes, mmap.MAP_PRIVATE)
    finally:
        os.close(descriptor)


@cache
def _library() -> Any:
    """Load the calls: those of Python's mmap keep a descriptor for every mapping."""
    library = ctypes.CDLL(None, use_errno=True)
    size, number = ctypes.c_size_t, ctypes.c_int
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, size, *[number] * 3, ctypes.c_long)
    library.munmap.argtypes = (ctypes.c_void_p, size)
    return library


def _map(descriptor: int, nbytes: int, flags: int) -> Array:
    access = mmap.PROT_READ | mmap.PROT_WRITE
    address = _library().mmap(None, nbytes, access, flags, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    memory = (ctypes.c_ubyte * nbytes).from_address(address)
    finalize(memory, _library().munmap, address, nbytes).atexit = False
    return np.ctypeslib.as_array(memory)
