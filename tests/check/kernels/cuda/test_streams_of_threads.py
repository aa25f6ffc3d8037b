"""Streams of CuPy: tasks enter one of their thread, and wait for events."""

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread
from types import SimpleNamespace

from tests.check.kernels.cuda.test_device import cupy  # noqa: F401  (a fixture)
from twom_dist.kernels.cuda.device import CudaDevice


def test_tasks_have_a_stream_of_their_thread_and_wait_for_events(cupy):  # noqa: F811
    """The default stream gives way to a blocking one; another is left as it is."""
    null, calls = SimpleNamespace(ptr=0), []
    current = [null]

    class Stream:
        def __init__(self):
            self.ptr = 7
            calls.append("stream")

        def __enter__(self):
            current.append(self)

        def __exit__(self, *_):
            current.pop()

        def record(self, event):
            calls.append(("record", event))
            return SimpleNamespace(synchronize=lambda: calls.append("wait"))

        def wait_event(self, event):
            calls.append(("wait_event", event))

    Stream.null = null
    cupy.cuda.Stream = Stream
    cupy.cuda.Event = lambda disable_timing: f"event, {disable_timing}"
    cupy.cuda.get_current_stream = lambda: current[-1]
    device = CudaDevice()
    for _ in range(2):
        with device.stream():
            assert device.stream_id()[1] == 7
            with device.stream():
                device.synchronize()
            device.wait_for("made")
    expected = [("record", "event, True"), "wait", ("wait_event", "made")]
    assert calls == ["stream", *2 * expected]
    assert current == [null]


def test_a_thread_that_ends_hands_its_streams_on(cupy):  # noqa: F811
    class Stream:
        made = 0
        null = SimpleNamespace(ptr=0)

        def __init__(self):
            Stream.made += 1

        def __enter__(self):
            pass

        def __exit__(self, *_):
            pass

    cupy.cuda.Stream = Stream
    cupy.cuda.get_current_stream = lambda: Stream.null
    device, both = CudaDevice(), Barrier(2, timeout=30)

    def run():
        with device.stream():
            both.wait()

    for _ in range(3):
        threads = [Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
    assert Stream.made == 2


def test_threads_tell_their_default_streams_apart(cupy):  # noqa: F811
    """All have one address, those of ended threads as well."""
    device, found = CudaDevice(), []
    cupy.cuda.get_current_stream = lambda: SimpleNamespace(ptr=2)
    for _ in range(3):
        thread = Thread(target=lambda: found.append(device.stream_id()))
        thread.start()
        thread.join()
    found.append(device.stream_id())
    assert len({*found}) == 4
    assert device.stream_id() == found[-1]
    cupy.cuda.get_current_stream = lambda: SimpleNamespace(ptr=7)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(device.stream_id).result() == device.stream_id()
