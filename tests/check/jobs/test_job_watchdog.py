"""Calls that never come back."""

import time

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
