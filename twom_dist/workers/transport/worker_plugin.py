"""A worker plugin that sends blocks to other workers without dask's connection.

Lanes bring blocks before the message, so that no event loop waits for them; so do CUDA
handles, between processes that can share a device. Once for each connection, the sender
finds out whether handles work: it asks the process at the other end to read a sample,
so no names of hosts, users or containers are compared.
"""

import asyncio
import os
import pickle
import sys
from collections import Counter
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any

import numpy as np
from distributed.comm.addressing import get_address_host
from distributed.core import Status
from distributed.diagnostics.plugin import WorkerPlugin

from ...kernels.family import convert, family_of
from .handles import lend, opened
from .host_shares import HostShares
from .lane_server import LaneServer
from .lanes import LaneBrokenError, Lanes, Offer
from .serialiser import FAMILY, Passage, find_arrays, flatten, receiver

# Connections beside which there are lanes, and bytes of the least array for them: 1 MiB
# costs 0.67 of TLS (benchmarks/results/transport-cpu-zen5.jsonl).
LEAST = {"tcp": 8 * 2**20, "tls": 2**20}
# Blocks of a device that are lent at a time; dask sends 20 messages at a time from a
# process that may have 1024 files open.
_MOST_LENT = 32
# Lanes from one worker to another, as far as there are cores for their threads.
_LANES = 4
# For an answer to a sample, which waits only for the event loop of its receiver.
_ANSWER_SECONDS = 5
# Before one is asked again that had no answer: its plugin may come later than ours.
_AGAIN_SECONDS = 5
# Before lanes are tried again to a worker that a firewall may keep from us.
_BLOCKED_SECONDS = 300


class TransportPlugin(WorkerPlugin):
    """Send arrays to other workers by lanes and handles."""

    name = "twom-transport"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Stand before the handler of requests for data."""
        receiver.workers += 1
        self.worker, self.carried = worker, Counter[str]()
        self._lanes: dict[str, Lanes] = {}
        self._not_before: dict[str, float] = {}
        self._shares = HostShares(worker)
        self._handler = worker.handlers["get_data"]
        if hasattr(os, "memfd_create"):  # Linux
            worker.handlers |= {
                "get_data": self.get_data,
                "twom_dist_read": self.read,
                "twom_dist_bring": self.bring,
                "twom_dist_offer": self.offer,
                "twom_dist_drop": self.drop,
                "twom_dist_lead": self._shares.lead,
                "twom_dist_seek": self._shares.seek,
            }

    def teardown(self, worker: Any) -> None:
        """Leave data to dask, and return what other processes have lent."""
        worker.handlers["get_data"] = self._handler
        for name in ("read", "bring", "offer", "drop", "lead", "seek"):
            worker.handlers.pop(f"twom_dist_{name}", None)
        for lanes in self._lanes.values():
            lanes.close()
        receiver.workers -= 1
        if receiver.workers > 0:
            return
        if receiver.lanes is not None:
            receiver.lanes.close()
            receiver.lanes = None
        opened.close()

    async def get_data(
        self,
        comm: Any,
        keys: Any,
        who: str | None = None,
        serializers: list[str] | None = None,
        **more: Any,
    ) -> Any:
        """Answer a request for data, past the connection if a worker asks.

        Clients do not say who they are; who names serialisers gets those.
        """
        protocol = comm.peer_address.partition("://")[0]
        if who is None or serializers is not None or protocol not in LEAST:
            return await self._handler(
                comm, keys=keys, who=who, serializers=serializers, **more
            )

        async def send(some: Any) -> Any:
            return await self._send(comm, some, who, LEAST[protocol], **more)

        return await self._shares.send(keys, who, send)

    async def _send(
        self, comm: Any, keys: Any, who: str, least: int, **more: Any
    ) -> Any:
        """Send a worker what it asks for, large arrays past the connection."""
        passage, serializers = await self._find_passage(comm, who), None
        try:
            await self._push(keys, passage, who, least)
            if passage.arrived:
                serializers = [FAMILY, "dask", "pickle"]
            answer = await self._handler(
                comm, keys=keys, who=who, serializers=serializers, **more
            )
            if not passage.arrived:
                passage.tickets = []
            return answer
        finally:
            await self._take_back(passage, who)

    async def _find_passage(self, comm: Any, who: str) -> Passage:
        """Return what is known of the process at the other end of a connection.

        A connection lasts no longer than that process, whichever gets its address next.
        """
        # The serialiser finds it there: in the context of each message.
        known = comm.remote_info
        passage: Passage | None = known.get(FAMILY)
        asks = "cupy" in sys.modules
        if passage is None or passage.asked != asks or passage.ends < monotonic():
            device = await self._prove(who) if asks else False
            ends = inf if device is not None else monotonic() + _AGAIN_SECONDS
            passage = Passage(bool(device), asked=asks, ends=ends, carried=self.carried)
            known[FAMILY] = passage
        return passage

    async def _prove(self, who: str) -> bool | None:
        """Tell whether a process reads from our device; None if it does not answer."""
        secret, answer = os.urandom(16), None
        with suppress(Exception):
            block = convert(np.frombuffer(secret, np.uint8), "cupy")
            with lend([block]) as [sample]:
                read = self.worker.rpc(who).twom_dist_read(frame=pickle.dumps(sample))
                answer = await asyncio.wait_for(read, _ANSWER_SECONDS)
        return None if answer is None else answer == secret

    async def _push(self, keys: Any, passage: Passage, who: str, least: int) -> None:
        """Have the worker that asks copy blocks, and lanes bring its large arrays."""
        worker = self.worker
        paused = worker.status is Status.paused
        limit = 1 if paused else worker.transfer_outgoing_count_limit
        if limit and worker.transfer_outgoing_count >= limit:
            return
        values = [worker.data[key] for key in keys if key in worker.data]
        blocked = self._not_before.get(who, 0.0) > monotonic()
        lent, arrays = dict[int, Any](), dict[int, Any]()
        for x in find_arrays(values):
            copied = passage.device and family_of(x) == "cupy" and x.size
            wanted = copied or (x.nbytes >= least and not blocked)
            found = flatten(x) if wanted else None
            if found is not None:
                (lent if copied else arrays)[id(x)] = x, found[0]
        if not (arrays or lent):
            return
        worker.transfer_outgoing_count += 1
        lanes: Any = None
        try:
            await self._lend([*lent.values()], passage, who)
            lanes = await self._open_lanes(who) if arrays else None
            flat = (lanes.push(flat) for _, flat in arrays.values())
            tickets = await asyncio.gather(*flat)
            each = zip(arrays.values(), tickets, strict=True)
            passage.arrived |= {id(x): (x, ticket, "lanes") for (x, _), ticket in each}
            passage.tickets += tickets
        except Exception:
            # These go dask's way, and later ones by lanes that are opened anew.
            if lanes is not None and self._lanes.get(who) is lanes:
                self._forget(who)
        finally:
            worker.transfer_outgoing_count -= 1

    async def _lend(self, blocks: list[Any], passage: Passage, who: str) -> None:
        """Have a worker copy blocks of this device while they are lent."""
        for i in range(0, len(blocks), _MOST_LENT):
            some = blocks[i : i + _MOST_LENT]
            tickets = [os.urandom(16) for _ in some]
            passage.tickets += tickets
            passage.device = False  # where that worker cannot copy them any more
            with lend(flat for _, flat in some) as places:
                frame = pickle.dumps([*zip(tickets, places, strict=True)])
                await self.worker.rpc(who).twom_dist_bring(frame=frame)
            passage.device = True
            for (x, _), ticket in zip(some, tickets, strict=True):
                passage.arrived[id(x)] = x, ticket, "device"

    async def _open_lanes(self, who: str) -> Lanes:
        """Return the lanes to a worker, which raises where it is out of reach."""
        if who in self._lanes and self._lanes[who].works():
            return self._lanes[who]
        for address in [x for x, lanes in self._lanes.items() if not lanes.works()]:
            self._forget(address)
        self._not_before[who] = monotonic() + _AGAIN_SECONDS
        # Sockets and threads are few where there are many workers.
        count = min(_LANES, len(os.sched_getaffinity(0)), 128 // (1 + len(self._lanes)))
        rpc = self.worker.rpc(who).twom_dist_offer(count=max(1, count))
        offers = await asyncio.wait_for(rpc, _ANSWER_SECONDS)
        self._not_before[who] = monotonic() + _BLOCKED_SECONDS
        if not offers:
            raise LaneBrokenError("a worker has no address of its own")
        if who.startswith("tls") and not all(len(x[3]) == 2 for x in offers):
            raise LaneBrokenError("a worker beyond TLS offers no keys")
        made = await asyncio.to_thread(Lanes, [Offer(*x) for x in offers])
        self._not_before.pop(who, None)
        if self._lanes.setdefault(who, made) is not made:
            made.close()
        return self._lanes[who]

    def _forget(self, who: str) -> None:
        """Close the lanes to a worker that has gone, or to which one has broken."""
        if who in self._lanes:
            self._lanes.pop(who).close()

    async def _take_back(self, passage: Passage, who: str) -> None:
        """Have the receiver forget what has arrived, unless its message has."""
        tickets, passage.arrived, passage.tickets = passage.tickets, {}, []
        if tickets:
            with suppress(Exception):
                drop = self.worker.rpc(who).twom_dist_drop(tickets=tickets)
                await asyncio.wait_for(drop, _ANSWER_SECONDS)

    async def offer(self, count: int) -> list[tuple[Any, ...]]:
        """Offer lanes to a worker whose blocks this one has asked for.

        None where others know this worker by an address that is not this host's.
        """
        if receiver.lanes is None:
            try:
                receiver.lanes = LaneServer(get_address_host(self.worker.address))
            except OSError:
                return []
        sealed = self.worker.address.startswith("tls")
        return [tuple(x) for x in receiver.lanes.offer(count, sealed)]

    async def drop(self, tickets: list[bytes]) -> None:
        """Forget blocks that no message brings."""
        opened.drop(tickets)
        if receiver.lanes is not None:
            receiver.lanes.drop(tickets)

    async def bring(self, frame: bytes) -> None:
        """Copy blocks of another process's device, for the message that names them."""
        for ticket, place in pickle.loads(frame):
            # In a thread, since both devices have work that comes first.
            await asyncio.to_thread(opened.bring, ticket, *place)

    async def read(self, frame: bytes) -> bytes:
        """Answer what is in a sample; nothing if it cannot be read."""
        with suppress(Exception):
            found = await asyncio.to_thread(opened.copy, *pickle.loads(frame))
            return bytes(convert(found, "numpy"))
        return b""
