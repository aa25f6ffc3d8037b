"""Large blocks of one worker that several of another host ask for."""

import asyncio
from types import SimpleNamespace

from distributed.core import Status

from tests.support.transport import LEAST_SHARED, HostShares

HERE, FIRST, SECOND, ELSEWHERE = (
    f"tcp://10.0.0.{x}" for x in ("1:1", "2:1", "2:2", "3:1")
)
SIZES = {"large": LEAST_SHARED, "small": LEAST_SHARED - 1, "unknown": None}


class Workers(dict):
    """Workers that reach one another, and what they were told to seek."""

    def __init__(self):
        for address in (HERE, FIRST, SECOND, ELSEWHERE):
            own = SimpleNamespace(address=address, data={}, rpc=self.reach, told=[])
            tasks = {key: SimpleNamespace(nbytes=size) for key, size in SIZES.items()}
            own.state = SimpleNamespace(tasks=tasks)
            own.handle_stimulus = own.told.append
            self[address] = own, HostShares(own)
        self[HERE][0].data = dict.fromkeys(SIZES)

    def reach(self, address):
        shares = self[address][1]
        return SimpleNamespace(twom_dist_lead=shares.lead, twom_dist_seek=shares.seek)

    async def ask(self, who, *keys, answer=Status.dont_reply, goes=None):
        """Have a worker ask for blocks; return those that are sent, and the answer."""
        sent = []

        async def send(some):
            sent.extend(some)
            if goes is not None:
                await goes.wait()
            if answer is Status.dont_reply:
                self[who][0].data |= dict.fromkeys(some)
            return answer

        found = await self[HERE][1].send(keys, who, send)
        return sent, found

    def sought(self, who):
        return [event.who_has for event in self[who][0].told]


def test_others_of_a_host_wait_for_the_first_and_seek_it_there():
    async def ask():
        workers, goes = Workers(), asyncio.Event()
        asks = [workers.ask(who, "large", goes=goes) for who in (FIRST, SECOND)]
        first, second = map(asyncio.ensure_future, asks)
        await asyncio.sleep(0.01)
        whole = ["large"], Status.dont_reply
        assert await workers.ask(ELSEWHERE, "large") == whole
        assert await workers.ask(HERE, "large") == whole
        assert not second.done()
        goes.set()
        assert await first == whole
        assert await second == ([], Status.dont_reply)
        assert workers.sought(SECOND) == [{"large": [FIRST]}]
        # Who asks again has lost it, and so may others have.
        assert await workers.ask(SECOND, "large") == whole
        assert await workers.ask(FIRST, "large") == ([], Status.dont_reply)
        assert workers.sought(FIRST) == [{"large": [SECOND]}]

    asyncio.run(ask())


def test_a_worker_is_sent_what_its_neighbour_has_not_got_or_has_lost():
    async def ask():
        workers, busy = Workers(), {"status": "busy"}
        assert await workers.ask(FIRST, "large", answer=busy) == (["large"], busy)
        whole = ["large"], Status.dont_reply
        assert await workers.ask(SECOND, "large") == whole
        del workers[SECOND][0].data["large"]
        assert await workers.ask(FIRST, "large") == whole
        del workers[FIRST]  # and out of reach
        assert await workers.ask(SECOND, "large") == whole
        assert not workers.sought(SECOND)

    asyncio.run(ask())


def test_small_blocks_and_those_that_have_gone_are_not_waited_for():
    async def ask():
        workers = Workers()
        for keys in (["small"], ["unknown"], ["gone"], ["large", "small"], []):
            for who in (FIRST, SECOND):
                assert (await workers.ask(who, *keys))[0] == keys
        await workers.ask(FIRST, "large")
        del workers[HERE][0].data["large"]
        assert (await workers.ask(SECOND, "large"))[0] == ["large"]

    asyncio.run(ask())
