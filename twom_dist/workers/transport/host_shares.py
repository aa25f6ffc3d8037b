"""Large blocks go to another host once, and from there to its other workers.

Dask's workers prefer a holder on their own host, but all of them may ask before any has
the block. The first one gets it. Once the block has arrived, each other worker gets an
empty answer, and is told to fetch the block only from the first worker.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from time import time
from typing import Any

from distributed.comm.addressing import get_address_host
from distributed.core import Status
from distributed.worker_state_machine import RefreshWhoHasEvent

# Bytes of the least block: dask sends those above 50 MB alone, so that no other waits
# with one. Nobody waits longer than a block takes to come.
LEAST_SHARED = 2**26
# For an answer, which waits only for the event loop of its sender.
_ANSWER_SECONDS = 5


@dataclass
class _Sent:
    """A block on its way to a host, or there."""

    first: str  # worker that gets it
    asked: set[str]  # workers
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class HostShares:
    """The large blocks that a worker has sent to other hosts."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._sent: dict[tuple[Any, str], _Sent] = {}

    async def send(
        self, keys: Collection[Any], who: str, send: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """Send a worker blocks, but for one that it gets on its own host."""
        place = self._find_place(keys, who)
        if place is None:
            return await send(keys)
        while (sent := self._sent.get(place)) and who not in sent.asked:
            sent.asked.add(who)
            await sent.ended.wait()
            came = self._sent.get(place) is sent
            if came and await self._lead(place[0], sent.first, who):
                return await send([])
        for gone in [x for x in self._sent if x[0] not in self._worker.data]:
            del self._sent[gone]
        self._sent[place] = sent = _Sent(who, {who})
        answer = None
        try:
            answer = await send(keys)
        finally:
            # Without the block, its next worker is the first.
            if answer is not Status.dont_reply and self._sent.get(place) is sent:
                del self._sent[place]
            sent.ended.set()
        return answer

    def _find_place(self, keys: Collection[Any], who: str) -> tuple[Any, str] | None:
        """Return a large block, and the other host to which it goes."""
        host, key = get_address_host(who), next(iter(keys), None)
        if len(keys) != 1 or key not in self._worker.data:
            return None
        nbytes = self._worker.state.tasks[key].nbytes or 0
        here = host == get_address_host(self._worker.address)
        return None if here or nbytes < LEAST_SHARED else (key, host)

    async def _lead(self, key: Any, first: str, who: str) -> bool:
        """Have a worker seek a block at another one alone; tell if that has it."""
        with suppress(Exception):  # of a network, or a worker without this plugin
            call = self._worker.rpc(first).twom_dist_lead(key=key, who=who)
            return bool(await asyncio.wait_for(call, _ANSWER_SECONDS))
        return False

    async def lead(self, key: Any, who: str) -> bool:
        """Have a worker of this host seek a block here, if it is here."""
        if key in self._worker.data:
            await self._worker.rpc(who).twom_dist_seek(key=key, at=self._worker.address)
            return True
        return False

    async def seek(self, key: Any, at: str) -> None:
        """Seek a block at one worker, whoever else has it."""
        event = RefreshWhoHasEvent(who_has={key: [at]}, stimulus_id=f"seek-{time()}")
        self._worker.handle_stimulus(event)
