"""Graphs of calls: nothing runs beside what it shares memory with, or instead of it."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

import twom_dist as td
from tests.support.expect import raises
from tests.support.nvml import with_modules
from twom_dist.errors import PlanError
from twom_dist.kernels.graphs import Graphs


class Stream:
    """A stream of CuPy's: what it waits for, and calls, which may be captured."""

    current = None

    def __init__(self, name="own", non_blocking=True):
        self.name, self.log, self.captured = name, [], None
        self.synchronize = lambda: None

    def __enter__(self):
        self.before, Stream.current = Stream.current, self
        return self

    def __exit__(self, *error):
        Stream.current = self.before

    def is_capturing(self):
        return self.captured is not None

    def wait_event(self, event):
        if event.stream is not None:
            self.log.append(f"wait for {event.stream.name}")

    def record(self):
        return Event(self)

    def begin_capture(self):
        self.captured = []

    def end_capture(self):
        calls, self.captured = self.captured, None
        launch = lambda stream: stream.log.append(("replay", *calls))  # noqa: E731
        return SimpleNamespace(launch=launch)


class Event:
    """A moment of a stream."""

    def __init__(self, stream=None, **options):
        self.stream = stream

    record = __init__


def call(what):
    stream = Stream.current
    (stream.log if stream.captured is None else stream.captured).append(what)


@pytest.fixture
def user():
    """The stream that a user has made current."""
    own = SimpleNamespace(
        Stream=Stream, Event=Event, get_current_stream=lambda: Stream.current
    )
    with with_modules(cupy={"cuda": own}), Stream("user") as made:
        yield made


def test_the_second_call_at_a_place_is_captured_and_the_third_replayed(user):
    kept = Graphs()
    for n in range(4):
        kept.run("here", lambda n=n: call(n))
    # The second call runs on the stream that is captured, and once more in the graph.
    wait, done = "wait for user", "wait for own"
    assert user.log == [0, wait, done, wait, ("replay", 1), wait, ("replay", 1)]
    # On another stream the next one waits for the last.
    with Stream("other") as other:
        kept.run("here", lambda: None)
    assert other.log == ["wait for user", ("replay", 1)]
    # What the user captures is not captured by us.
    user.begin_capture()
    for _ in range(3):
        kept.run("here", lambda: call("call"))
    assert user.captured == ["call"] * 3


@pytest.mark.parametrize("in_capture", [False, True])
def test_after_an_error_nothing_runs_beside_what_was_launched_before_it(
    user, in_capture
):
    """The user's stream waits for our own one, and the next call for both."""
    kept = Graphs()

    def compute():
        if Stream.current.is_capturing() or not in_capture:
            raise ZeroDivisionError

    kept.run("here", lambda: None)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            kept.run("here", compute)
        assert user.log[-1] == "wait for own"
        assert not kept._stream.is_capturing()
    with Stream("other") as other:
        kept.run("there", lambda: None)
    assert other.log == ["wait for user"]


class Array:
    """An array of a device, as a product asks for it."""

    __module__ = "cupy"

    def __init__(self, device, x):
        self.shape, self.dtype, self.ndim = x.shape, x.dtype, x.ndim
        self.device, self.strides = SimpleNamespace(id=device), x.strides
        self.data = SimpleNamespace(ptr=x.ctypes.data)


def test_graphs_are_of_devices_and_places(user, monkeypatch):
    """Addresses, shapes, strides and dtypes."""
    product = td.Product((4, 4), (4, 4), graph=True, num_moduli=8)
    module = "twom_dist.api.prepared"
    monkeypatch.setattr(f"{module}.OwnMemory", lambda: SimpleNamespace(use=nullcontext))
    monkeypatch.setattr(f"{module}.compute_arrays", lambda *given: call("computed"))
    a, x = np.zeros((4, 4), complex), np.zeros((9, 9), complex)
    outs = [x, x.T, x[:2], x.view(float), np.zeros_like(x)]
    for expected in ("computed", None, ("replay", "computed")):
        user.log.clear()
        for device in (0, 1):
            for out in outs:
                product(*[Array(device, a)] * 2, out=Array(device, out))
        assert expected is None or user.log.count(expected) == 2 * len(outs)


def test_products_say_what_cannot_be_captured():
    for options in ({}, {"num_moduli": 8, "equilibrate": True}):
        with raises(PlanError, "graph"):
            td.Product((4, 4), (4, 4), graph=True, **options)
    # On the host there is nothing to capture.
    product, out = td.Product((4, 4), (4, 4), graph=True, num_moduli=8), np.eye(4) + 0j
    for _ in range(3):
        assert product(np.eye(4) + 0j, np.eye(4) + 0j, out=out) is out
