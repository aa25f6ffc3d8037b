"""A worker plugin: blocks for workers of this host go past the connection.

A sender asks the process at the other end of a connection to read a sample, once for
each connection, and sends it blocks only in ways in which it read that: no name of a
host, user or container has to be compared. dask's handler holds what it sends until the
receiver has answered, and so does ours.
"""

import asyncio
import os
import sys
from collections import Counter
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any

import numpy as np
from distributed.diagnostics.plugin import WorkerPlugin

from ...kernels.family import convert
from .handles import opened
from .serialiser import FAMILY, Passage, Way, pack, receiver, unpack

# Connections that arrays may pass, and the bytes of the smallest array of the host that
# does. Memory costs what TCP does: of 64 MiB blocks 0.65 CPU seconds a GB, where TLS
# costs 1.75. At 1 MiB it costs 0.60 of TLS, at half of that 0.94
# (benchmarks/results/transport-cpu-zen4.jsonl).
LEAST = {"tcp": inf, "tls": 2**20}
# For an answer to a sample, which waits only for the event loop of its receiver.
_ANSWER_SECONDS = 5
# Before one is asked again that had no answer: its plugin may come later than ours.
_AGAIN_SECONDS = 5


class TransportPlugin(WorkerPlugin):
    """Send arrays to workers of this host by handles and memory."""

    name = "twom-transport"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Stand before the handler of requests for data."""
        self.worker, self.carried = worker, Counter[str]()
        self._handler = worker.handlers["get_data"]
        if hasattr(os, "memfd_create"):  # Linux
            worker.handlers["get_data"] = self.get_data
            worker.handlers["twom_dist_read"] = self.read

    def teardown(self, worker: Any) -> None:
        """Leave data to dask, and return what other processes have lent."""
        worker.handlers["get_data"] = self._handler
        worker.handlers.pop("twom_dist_read", None)
        opened.close()

    async def get_data(
        self,
        comm: Any,
        keys: Any,
        who: str | None = None,
        serializers: list[str] | None = None,
        **more: Any,
    ) -> Any:
        """Answer a request for data, past the connection if a worker nearby asks.

        Clients do not say who they are; who names serialisers gets those.
        """
        passage = None
        if who is not None and serializers is None:
            passage = await self._find_passage(comm, who)
            if passage is not None:
                serializers = [FAMILY, "dask", "pickle"]
        try:
            return await self._handler(
                comm, keys=keys, who=who, serializers=serializers, **more
            )
        finally:
            if passage is not None:
                passage.close()

    async def _find_passage(self, comm: Any, who: str) -> Passage | None:
        """Return the ways that the process at the other end can use, None without any.

        A connection lasts no longer than that process, whichever gets its address next.
        """
        least = LEAST.get(comm.peer_address.partition("://")[0])
        on_device = "cupy" in sys.modules
        if least is None or (least == inf and not on_device):
            return None
        wanted: tuple[Way, ...] = ("host", "device") if on_device else ("host",)
        # The serialiser finds it there: in the context of each message.
        known = comm.remote_info
        passage: Passage | None = known.get(FAMILY)
        if passage is None or passage.wanted != wanted or passage.ends < monotonic():
            ways = await self._prove(who, wanted)
            passage = known[FAMILY] = Passage(ways or (), wanted, self.carried)
            passage.least = least
            if ways is None:
                passage.ends = monotonic() + _AGAIN_SECONDS
        return passage if passage.ways else None

    async def _prove(self, who: str, wanted: tuple[Way, ...]) -> tuple[Way, ...] | None:
        """Find the ways in which a process can read; None if it does not answer yet."""
        ways: tuple[Way, ...] = ()
        for way in wanted:
            secret, answer = os.urandom(16), None
            sample = Passage((way,))
            with suppress(Exception):
                block = np.frombuffer(secret, np.uint8)
                block = block if way == "host" else convert(block, "cupy")
                read = self.worker.rpc(who).twom_dist_read(frame=pack(block, sample))
                answer = await asyncio.wait_for(read, _ANSWER_SECONDS)
            sample.close()
            if way == "host" and answer is None:
                return None
            if answer == secret:
                ways += (way,)
        return ways

    async def read(self, frame: bytes) -> bytes:
        """Answer what is in a sample; nothing if it cannot be read."""
        if receiver.works:
            with suppress(Exception):
                return bytes(convert(unpack(frame), "numpy"))
        return b""
