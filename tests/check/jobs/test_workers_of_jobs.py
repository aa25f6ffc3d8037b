"""Workers of a job: their GPUs and memory, tasks at a disk, errors, and idle ones."""

from importlib.util import find_spec
from pathlib import Path
from queue import Empty
from threading import Barrier, Event, Lock
from types import SimpleNamespace

import pytest
from distributed.core import clean_exception, error_message

from tests.support.cases import cases
from tests.support.command import contents
from tests.support.expect import raises
from twom_dist.errors import EngineUnavailableError, StoreError, portable_errors
from twom_dist.jobs import watchdog
from twom_dist.jobs.execution import LEAST_BYTES, Cores, at_disk
from twom_dist.jobs.resources import budget_for_devices, choose_engine
from twom_dist.plan import Cluster
from twom_dist.workers.devices import WorkerDevice

GIB = 2**30
NONE = WorkerDevice(reason="CUDA finds no device")
ONE, OTHER = (WorkerDevice(f"node GPU-{i}", free_bytes=GIB) for i in (1, 2))


@cases(
    ("engine", "told", "chosen"),
    [
        ("auto", [ONE, OTHER], "cuda"),
        ("auto", [NONE, NONE], "cpu"),
        ("auto", [], "cpu"),
        # Started for the cores of a machine that has a GPU.
        ("auto", [ONE, ONE], "cpu"),
        ("cuda", [ONE, ONE], "cuda"),
        ("reference", [], "reference"),
        ("cuda", [NONE, NONE], "no-gpu"),
        ("cuda", [], "no-gpu"),
        ("auto", [ONE, NONE], "gpu-missing"),
        ("auto", [ONE, ONE, OTHER], "gpu-missing"),
    ],
)
def test_the_engine_follows_the_workers(engine, told, chosen):
    by_address = dict(zip("abc", told, strict=False))
    # A client needs CuPy as well.
    code = "no-cupy" if chosen == "cuda" and find_spec("cupy") is None else chosen
    if code in ("cuda", "cpu", "reference"):
        assert choose_engine(engine, by_address) == code
    else:
        with raises(EngineUnavailableError, code):
            choose_engine(engine, by_address)


@cases(
    ("told", "room"),
    [
        ([OTHER], GIB),
        (4 * [WorkerDevice("x", free_bytes=8 * GIB, own_bytes=GIB)], 3 * GIB),
        ([WorkerDevice("x", free_bytes=8 * GIB, most_bytes=5 * GIB)], 5 * GIB),
        # What is planned with and what arrays hold are together 0.8 of all.
        ([WorkerDevice("x", own_bytes=8 * GIB, held_bytes=int(0.8 * GIB))], 7 * GIB),
        ([WorkerDevice("x", own_bytes=GIB, held_bytes=GIB)], 1),
        ([WorkerDevice("x")], 1),
        # The fullest counts.
        ([ONE, ONE, OTHER], GIB // 2),
    ],
)
def test_there_is_room_for_what_devices_have_left_and_not_hosts(told, room):
    found = budget_for_devices(Cluster(len(told)), dict(enumerate(told))).memory
    assert (found.kind, found.limit) == ("device", pytest.approx(room, abs=1))


@pytest.mark.parametrize("flags", [(), ("--n-workers", "0"), ("--n-workers", "2")])
def test_the_command_refuses_cuda_where_there_is_no_gpu(call, a, b, monkeypatch, flags):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    before = contents(Path())
    product = ("gemm", "A.npy", "B.npy", "-o", "C.npy", "--engine", "cuda", *flags)
    call.assert_refuses(*product, why="no-gpu")
    assert contents(Path()) == before


PATIENCE = 30


@pytest.mark.parametrize("cores", [1, 3])
def test_no_more_compute_than_there_are_cores(cores):
    lock, counts = Lock(), {"now": 0, "most": 0}
    begun = Barrier(cores)

    def compute(n):
        with lock:
            counts["now"] += 1
            counts["most"] = max(counts["most"], counts["now"])
        if n < cores:
            begun.wait(PATIENCE)
        with lock:
            counts["now"] -= 1
        with at_disk(LEAST_BYTES):
            # A failure gives its place back as well.
            return 1 // (n % 2)

    with Cores(cores) as pool:
        tasks = [pool.submit(compute, n) for n in range(50)]
    failed = [isinstance(task.exception(), ZeroDivisionError) for task in tasks]
    assert failed == 25 * [True, False]
    assert counts == {"now": 0, "most": cores}


@pytest.mark.parametrize("writes", [False, True])
def test_an_error_drops_what_has_not_begun_and_waits_for_writers_alone(writes):
    begun, go, ran = Event(), Event(), []

    def run():
        begun.set()
        go.wait(PATIENCE)
        ran.append("first")

    def fail():
        with Cores(1, writes=writes) as pool:
            pool.submit(run)
            pool.submit(ran.append, "second")
            begun.wait(PATIENCE)
            if writes:
                go.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert ran == (["first"] if writes else [])
    go.set()


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
    asked = {"run_on_scheduler": lambda _: (1, 0, 0)}
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
