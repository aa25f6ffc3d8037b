"""Large blocks go to another host once, and on from there to its other workers.

Dask's workers prefer a holder on their own host, but all of them may ask before any has
the block. The first one gets it. Others are told, once it has come, that this worker is
busy, so that they ask the scheduler who else has it.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from distributed.comm.addressing import get_address_host

# Bytes of the least block: dask waits 0.15 s before it asks a busy worker again, and
# lanes take as long to bring this one to seven workers. Smaller blocks come several in
# a message (dask's limit is 50 MB), which would wait for one of them.
LEAST_SHARED = 2**26
# For the scheduler to hear that a block has come.
_HEARD_SECONDS = 0.05
# The longest that one worker waits for the block of another.
_MOST_SECONDS = 30
# Times that a worker is sent elsewhere for a block: others may have dropped theirs.
_MOST_TOLD = 2


@dataclass
class _Sent:
    """A block on its way to a host, or there."""

    first: str  # worker that gets it
    come: asyncio.Event = field(default_factory=asyncio.Event)
    told: dict[str, int] = field(default_factory=dict)  # by worker, how often


class HostShares:
    """The large blocks that a worker has sent to other hosts."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._sent: dict[tuple[Any, str], _Sent] = {}

    def _list_large(self, keys: Iterable[Any], who: str) -> list[tuple[Any, str]]:
        host, tasks = get_address_host(who), self._worker.state.tasks
        if host == get_address_host(self._worker.address):
            return []
        found = ((key, tasks[key].nbytes or 0) for key in keys if key in tasks)
        return [(key, host) for key, nbytes in found if nbytes >= LEAST_SHARED]

    async def wait_elsewhere(self, keys: Iterable[Any], who: str) -> bool:
        """Wait for blocks to come to a worker's host; tell if it gets them there."""
        found = (self._sent.get(place) for place in self._list_large(keys, who))
        others = [
            sent
            for sent in found
            if sent and sent.first != who and sent.told.get(who, 0) < _MOST_TOLD
        ]
        for sent in others:
            sent.told[who] = sent.told.get(who, 0) + 1
            with suppress(TimeoutError):
                await asyncio.wait_for(sent.come.wait(), _MOST_SECONDS)
        if others:
            await asyncio.sleep(_HEARD_SECONDS)
        return bool(others)

    @contextmanager
    def sending(self, keys: Iterable[Any], who: str) -> Iterator[None]:
        """Note that a worker is sent blocks."""
        for place in [x for x in self._sent if x[0] not in self._worker.data]:
            del self._sent[place]
        own = {place: _Sent(who) for place in self._list_large(keys, who)}
        self._sent |= own
        try:
            yield
        finally:
            for sent in own.values():
                sent.come.set()
