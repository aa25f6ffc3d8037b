"""Graphs of calls: their captures, replays and waits, on a stand-in for CuPy."""

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import twom_dist as td
from tests.support.expect import raises
from twom_dist.api import prepared
from twom_dist.errors import PlanError
from twom_dist.kernels import graphs


class Event:
    """A moment of a stream, told by what was launched there before."""

    def __init__(self, **options):
        assert options in ({}, {"disable_timing": True})
        self.stream = None

    def record(self, stream):
        self.stream = stream


class Stream:
    """A stream of calls, which may be captured."""

    current = None

    def __init__(self, name="own", non_blocking=True):
        self.name, self.log, self.captured = name, [], None

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

    def record(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def synchronize(self):
        self.log.append("synchronize")

    def begin_capture(self):
        assert self.name == "own"  # the legacy stream refuses
        self.captured = []

    def end_capture(self):
        calls, self.captured = self.captured, None
        return Graph(calls)

    def call(self, what):
        (self.log if self.captured is None else self.captured).append(what)


class Graph:
    """What was captured."""

    def __init__(self, calls):
        self.calls = calls

    def launch(self, stream):
        stream.log.append(("replay", *self.calls))


@pytest.fixture
def user(monkeypatch):
    """The stream that a user has made current, of a stand-in for CuPy."""
    module = ModuleType("cupy")
    module.cuda = ModuleType("cupy.cuda")
    module.cuda.Stream, module.cuda.Event = Stream, Event
    module.cuda.get_current_stream = lambda: Stream.current
    monkeypatch.setitem(sys.modules, "cupy", module)
    Stream.current = Stream("user")
    yield Stream.current
    Stream.current = None


def test_the_second_call_at_a_place_is_captured_and_the_third_replayed(user):
    kept, own = graphs.Graphs(), None
    for n in range(4):
        kept.run("here", lambda n=n: Stream.current.call(n))
        own = kept._stream
    # The second call runs on the stream that is captured, and once more in the graph.
    assert own.log == ["wait for user", 1]
    wait, done = "wait for user", "wait for own"
    assert user.log == [0, wait, done, wait, ("replay", 1), wait, ("replay", 1)]
    # On another stream the next one waits for the last.
    with Stream("other") as other:
        kept.run("here", lambda: None)
    assert other.log == ["wait for user", ("replay", 1)]


def test_other_places_have_graphs_of_their_own_and_few_are_kept(user, monkeypatch):
    monkeypatch.setattr(graphs, "_MOST", 2)
    monkeypatch.setattr(graphs, "_MOST_SEEN", 4)
    kept = graphs.Graphs()
    for place in "aabbaccbb":
        kept.run(place, lambda place=place: Stream.current.call(place))
    replayed = [x for x in user.log if isinstance(x, tuple)]
    assert replayed == [("replay", "a"), ("replay", "b")]
    assert "synchronize" in user.log  # before a graph goes
    assert [*kept._graphs] == ["c", "b"]
    for n in range(20):
        kept.run(n, lambda: None)
    assert len(kept._seen) <= 4


def test_what_the_user_captures_is_not_captured_by_us(user):
    kept, user.name = graphs.Graphs(), "own"
    user.begin_capture()
    for _ in range(3):
        kept.run("here", lambda: Stream.current.call("call"))
    assert user.end_capture().calls == ["call"] * 3


def test_a_failed_capture_ends_and_is_raised(user):
    kept, calls = graphs.Graphs(), []

    def compute():
        calls.append(Stream.current.is_capturing())
        if calls[-1]:
            raise ZeroDivisionError

    kept.run("here", compute)
    with pytest.raises(ZeroDivisionError):
        kept.run("here", compute)
    assert calls == [False, False, True]
    assert not kept._stream.is_capturing()
    assert not kept._graphs


def test_after_an_error_nothing_runs_beside_what_was_launched_before_it(user):
    """The user's stream waits for our own one, and the next call for both."""
    kept, own = graphs.Graphs(), None

    def compute():
        Stream.current.call("half")
        raise ZeroDivisionError

    kept.run("here", lambda: None)
    with pytest.raises(ZeroDivisionError):
        kept.run("here", compute)
    assert kept._stream.log == ["wait for user", "half"]
    assert user.log[-1] == "wait for own"
    for place in ("there", "elsewhere"):
        with Stream(place) as other, pytest.raises(ZeroDivisionError):
            kept.run(place, compute)
        assert other.log == [f"wait for {own or 'user'}", "half"]
        own = place


def test_each_device_has_graphs_of_its_own(user, monkeypatch):
    class Array:
        def __init__(self, device):
            self.shape, self.dtype, self.ndim = (4, 4), np.dtype(complex), 2
            self.device, self.strides = SimpleNamespace(id=device), (64, 16)
            self.data = SimpleNamespace(ptr=4096)

    Array.__module__ = "cupy"
    product = td.Product((4, 4), (4, 4), graph=True, num_moduli=8)
    monkeypatch.setattr(product, "_memory", lambda x: nullcontext())
    monkeypatch.setattr(prepared, "compute_arrays", lambda *x: Stream.current.call("?"))
    for device in (0, 1, 0, 1, 0, 1):
        product(Array(device), Array(device), out=Array(device))
    assert [*product._graphs] == [0, 1]
    assert [len(x._graphs) for x in product._graphs.values()] == [1, 1]
    assert user.log.count(("replay", "?")) == 2


def test_products_say_what_cannot_be_captured():
    for options in ({}, {"num_moduli": 8, "equilibrate": True}):
        with raises(PlanError, "graph"):
            td.Product((4, 4), (4, 4), graph=True, **options)
    with raises(PlanError, "graph"):
        td.Product((4, 4), (4, 4), graph="yes", num_moduli=8)
    # On the host there is nothing to capture.
    product, out = td.Product((4, 4), (4, 4), graph=True, num_moduli=8), np.eye(4) + 0j
    for _ in range(3):
        assert product(np.eye(4) + 0j, np.eye(4) + 0j, out=out) is out


def test_places_are_addresses_shapes_strides_and_dtypes():
    class Array:
        def __init__(self, x):
            self.data = type("Memory", (), {"ptr": x.ctypes.data})
            self.shape, self.strides, self.dtype = x.shape, x.strides, x.dtype

    x = np.zeros((4, 4), complex)
    given = [x, x.T, x[:2], x.view(float), np.zeros_like(x)]
    assert len({prepared._places(Array(y), None) for y in given}) == len(given)
    assert prepared._places(Array(x), None) == prepared._places(Array(x), None)
