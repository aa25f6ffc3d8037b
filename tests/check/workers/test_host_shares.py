"""Large blocks of one worker that several of another host ask for."""

import asyncio
from types import SimpleNamespace

from tests.support.transport import LEAST_SHARED, HostShares

HERE, FIRST, SECOND, ELSEWHERE = (
    f"tcp://10.0.0.{x}" for x in ("1:1", "2:1", "2:2", "3:1")
)


def made():
    sizes = {"large": LEAST_SHARED, "small": LEAST_SHARED - 1, "unknown": None}
    tasks = {key: SimpleNamespace(nbytes=size) for key, size in sizes.items()}
    state = SimpleNamespace(tasks=tasks)
    return SimpleNamespace(address=HERE, state=state, data=dict.fromkeys(sizes))


def test_others_of_a_host_wait_for_the_first_and_get_it_there():
    async def ask():
        shares = HostShares(made())
        with shares.sending(["large"], FIRST):
            waits = asyncio.ensure_future(shares.wait_elsewhere(["large"], SECOND))
            await asyncio.sleep(0.1)
            assert not waits.done()
            for who in (FIRST, ELSEWHERE, HERE):
                assert not await shares.wait_elsewhere(["large"], who)
        assert await waits
        # Once more, since the scheduler may not know yet; then it comes from here.
        assert await shares.wait_elsewhere(["small", "large"], SECOND)
        assert not await shares.wait_elsewhere(["large"], SECOND)

    asyncio.run(ask())


def test_small_blocks_and_those_that_have_gone_are_not_waited_for():
    async def ask():
        worker = made()
        shares = HostShares(worker)
        for keys in (["small", "unknown", "gone"], ["large"]):
            with shares.sending(keys, FIRST):
                pass
        assert not await shares.wait_elsewhere(["small", "unknown", "gone"], SECOND)
        del worker.data["large"]
        with shares.sending(["small"], FIRST):
            pass
        assert not await shares.wait_elsewhere(["large"], SECOND)

    asyncio.run(ask())
