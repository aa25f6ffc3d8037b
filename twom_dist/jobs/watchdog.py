"""Waiting for a cluster that may be gone: for a limited time, then with an error."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

from ..errors import StoreError, TwomError

T = TypeVar("T")

LOOK_SECONDS = 5.0  # after so long without news the scheduler is asked about workers
# Longest wait for an answer: a scheduler that is merely busy takes a second or two.
ANSWER_SECONDS = 60.0
# Longest wait for idle workers: one that died is back after a few seconds, and a paused
# one goes on when its data have been written to disk.
PATIENCE_SECONDS = 120.0

_AGAIN = "Start scheduler and workers again, and run the job again"


def start(function: Callable[..., T], *args: Any, **kwargs: Any) -> "Future[T]":
    """Call a function in a separate thread, for which the exit does not wait."""
    answer: Future[T] = Future()

    def call() -> None:
        try:
            answer.set_result(function(*args, **kwargs))
        except BaseException as error:
            answer.set_exception(error)

    Thread(target=call, daemon=True).start()
    return answer


def ask(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function that asks the cluster, and wait at most `ANSWER_SECONDS`."""
    answer = start(function, *args, **kwargs)
    wait([answer], ANSWER_SECONDS)
    if not answer.done():
        problem = f"scheduler or workers have not answered for {ANSWER_SECONDS:g} s"
        raise StoreError(problem, _AGAIN, "cluster-silent")
    return answer.result()


@contextmanager
def report_lost_scheduler(client: Any) -> Iterator[None]:
    """Tell of a scheduler that has gone, whatever its client raises instead."""
    try:
        yield
    except TwomError:
        raise
    except Exception as error:
        lost = client is not None and client.status != "running"
        if lost or type(error).__name__ == "CommClosedError":
            raise _gone(client) from error
        raise


def _gone(client: Any) -> StoreError:
    # A client that has given up knows no scheduler.
    address = getattr(client.scheduler, "address", "that the client knew")
    problem = f"the scheduler {address} went away"
    return StoreError(problem, _AGAIN, "scheduler-gone")


def survey(dask_scheduler: Any) -> tuple[int, int, int]:
    """Count the workers of a scheduler: all, busy and paused; runs there."""
    states = list(dask_scheduler.workers.values())
    paused = [ws for ws in states if ws.status.name == "paused"]
    # A paused worker finishes the tasks that it has begun, and begins none.
    busy = [ws for ws in states if ws.executing or (ws.processing and ws not in paused)]
    return len(states), len(busy), len(paused)


class Watch:
    """Waits for the tasks of a client, and watches the workers meanwhile."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._address = getattr(client.scheduler, "address", "?")
        self._idle_since: float | None = None
        self._check_connection()

    def next_done(self, done: "SimpleQueue[Any]") -> Any:
        """Return the next finished future; raise if it failed, or none can finish."""
        while True:
            try:
                future = done.get(timeout=LOOK_SECONDS)
            except Empty:
                self._look()
                continue
            # The worker that held it has died: the scheduler has it computed again.
            if future.status in ("pending", "lost"):
                future.add_done_callback(done.put)
                continue
            if future.cancelled():
                # A client that loses its scheduler cancels its futures as well.
                self._check_connection()
                problem = "somebody cancelled the tasks of the job"
                raise StoreError(problem, "Run it again", "job-cancelled")
            self._idle_since = None
            if future.status == "error":
                ask(future.result)
            return future

    def _check_connection(self) -> None:
        if self._client.status != "running":
            raise _gone(self._client)

    def _look(self) -> None:
        self._check_connection()
        try:
            workers, busy, paused = ask(self._client.run_on_scheduler, survey)
        except StoreError:
            raise
        except Exception as error:
            raise _gone(self._client) from error
        since = self._idle_since or monotonic()
        self._idle_since = since if not busy else None
        if busy or monotonic() - since < PATIENCE_SECONDS:
            return
        what, remedy, code = f"{workers} workers are idle", _AGAIN, "workers-idle"
        if not workers:
            what, remedy, code = "there is no worker", "Start some", "no-workers"
        elif paused:
            what, code = f"{paused} of {workers} workers are paused", "workers-paused"
            remedy = "Give each more memory, or start them again"
        problem = f"{what} at {self._address}, for {PATIENCE_SECONDS:g} s now"
        raise StoreError(problem, remedy, code)
