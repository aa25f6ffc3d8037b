"""Errors that come from a worker, and workers that only seem idle."""

from queue import Empty
from types import SimpleNamespace

import pytest
from distributed.core import clean_exception, error_message

from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.errors import StoreError, portable_errors
from twom_dist.jobs import watchdog


def test_workers_that_finish_something_are_not_idle(monkeypatch):
    """Two looks find none at work, long apart, and a tile comes between them."""
    now, done = [0.0], SimpleNamespace(status="finished", cancelled=lambda: False)

    def answer(happens):
        now[0] += watchdog.PATIENCE_SECONDS - 1
        if happens is None:
            raise Empty
        return happens

    def wait(*events):
        events = iter(events)
        queue = SimpleNamespace(get=lambda timeout: answer(next(events)))
        return watch.next_done(queue)

    monkeypatch.setattr(watchdog, "monotonic", lambda: now[0])
    asked = {"run_on_scheduler": lambda _: (1, 0, 0, 0)}
    client = SimpleNamespace(status="running", scheduler=None, **asked)
    watch = watchdog.Watch(client)
    assert wait(None, done) is done
    assert wait(None, done) is done
    with raises(StoreError, "workers-idle"):
        wait(None, None, None)


class UnpicklableError(Exception):
    """As an error of a library that holds a lock or an open file."""

    def __init__(self) -> None:
        super().__init__("no room in the chunk cache")
        self.held = (x for x in ())


class HugeError(Exception):
    """As an error whose text is a whole file."""

    def __init__(self) -> None:
        super().__init__("no room in the chunk cache" + 10**7 * "x")


def fail(cause, hidden=False):
    """Raise an error of ours because of another one, as a task does."""
    with portable_errors():
        try:
            raise cause()
        except Exception as error:
            told = StoreError("'C' cannot be written", "Free some space", "disk-full")
            raise told from (None if hidden else error)


@pytest.mark.parametrize("hidden", [False, True])
@cases("cause", [UnpicklableError, HugeError])
def test_what_dask_sends_is_the_error(cause, hidden):
    with raises(StoreError, "disk-full") as caught:
        fail(cause, hidden)
    sent = error_message(caught.value)["exception"].data
    assert len(sent) < 20_000
    found = clean_exception(sent)[1]
    assert type(found) is StoreError
    words = "'C' cannot be written", "Free some space", "disk-full"
    assert (found.problem, found.remedy, found.code) == words
    notes = "".join(getattr(found, "__notes__", []))
    assert ("no room in the chunk cache" in notes) != hidden
