"""Calls that never come back."""

import time
from queue import Empty
from types import SimpleNamespace

import pytest

from tests.support.expect import raises
from twom_dist.errors import StoreError
from twom_dist.jobs import watchdog


def test_a_call_that_does_not_come_back_is_a_silence_of_the_cluster(monkeypatch):
    def fail():
        raise TimeoutError("the disk did not answer")

    with pytest.raises(TimeoutError, match="the disk did not answer"):
        watchdog.ask(fail)
    monkeypatch.setattr(watchdog, "ANSWER_SECONDS", 0.05)
    with raises(StoreError, "cluster-silent"):
        watchdog.ask(time.sleep, 0.5)


@pytest.mark.parametrize("tiles", [0, 1])
def test_a_tile_ends_a_pause_of_idle_workers(monkeypatch, tiles):
    client = SimpleNamespace(status="running", scheduler=SimpleNamespace())
    client.run_on_scheduler = lambda _: (2, 0, 0, 0)  # two workers, and both are idle
    tile = SimpleNamespace(status="finished", cancelled=lambda: False)
    events = iter([(1000, None), *[(1001, tile)] * tiles, (1121, None), (1122, tile)])

    class Done:
        def get(self, timeout):
            now, future = next(events)
            monkeypatch.setattr(watchdog, "monotonic", lambda: now)
            if future is None:
                raise Empty
            return future

    watch = watchdog.Watch(client)
    if tiles:
        assert [watch.next_done(Done()) for _ in range(2)] == [tile, tile]
    else:
        with raises(StoreError, "workers-idle"):
            watch.next_done(Done())
