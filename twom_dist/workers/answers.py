"""Questions to the scheduler and workers of a client, with a limited wait.

A scheduler that has stopped or gone never answers, nor does a worker whose event loop
hangs, and dask waits for both. Only jobs wait for a scheduler that is not running.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from ..errors import EngineUnavailableError
from ..plan.cluster import MemoryBudget

THERE_SECONDS = 0.25  # for a scheduler to show that it is there: milliseconds if it is
ANSWER_SECONDS = 5  # for one that is, and for workers, which may import this package
AGAIN_SECONDS = 0.1  # for workers that left a question unanswered


@dataclass
class Answers:
    """Answers of a client's cluster so far."""

    workers: list[dict[str, Any]] | None = None  # as the scheduler listed them last
    pending: Future[Any] | None = None  # a question that is not answered yet
    # Addresses of workers that have this package, and whether each has its own GPU.
    equipped: dict[str, bool] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)  # those that did not answer that
    # The workers whose devices were measured, and the budget of the smallest.
    devices: tuple[frozenset[str], MemoryBudget] = frozenset(), MemoryBudget()
    warned: bool = False  # whether it was said that products of NumPy leave GPUs idle
    # Names of the plugins that were registered, and what registers them.
    plugins: dict[str, Any] = field(default_factory=dict)


_answers: WeakKeyDictionary[Any, Answers] = WeakKeyDictionary()


def answers_of(client: Any) -> Answers:
    """Return what a client's cluster has answered."""
    return _answers.setdefault(client, Answers())


def is_silent(client: Any) -> bool:
    """Tell if the scheduler has gone, or has not answered the last question yet."""
    pending = answers_of(client).pending
    return client.status != "running" or bool(pending and not pending.done())


def require_answer(client: Any) -> None:
    """Wait for a scheduler that is busy; raise if it has gone or does not answer."""
    if client.asynchronous or _is_there(client, ANSWER_SECONDS):
        return
    address = client.scheduler.address if client.scheduler else "unknown"
    problem = f"the scheduler at {address} does not answer"
    remedy = "Check its log, or start it again and make a new Client"
    raise EngineUnavailableError(problem, remedy, "scheduler-silent")


def ask_scheduler(client: Any, function: Callable[..., Any]) -> Any:
    """Run a function on the scheduler of a synchronous client; None without an answer.

    A caller does not wait at all while an earlier question is still open.
    """
    if is_silent(client):
        return None
    seconds = THERE_SECONDS
    if answers_of(client).workers is None:
        if not _is_there(client, seconds):
            return None
        seconds = ANSWER_SECONDS  # it may have to import this package
    try:
        return _ask(client, client._run_on_scheduler(function), seconds)
    except ImportError as error:
        raise _lacks(f"the scheduler at {client.scheduler.address}", error) from error


def _is_there(client: Any, seconds: float) -> bool:
    """Tell if a scheduler answers the least of questions, or an open one, by then."""
    if client.status != "running":
        return False
    pending = answers_of(client).pending
    if pending and not pending.done():
        wait([pending], seconds)
        return pending.done()
    return bool(_ask(client, client.scheduler.identity(n_workers=0), seconds))


def _ask(client: Any, question: Coroutine[Any, Any, Any], seconds: float) -> Any:
    """Have the client's event loop ask; None without an answer."""
    loop = client.loop.asyncio_loop
    asked = asyncio.run_coroutine_threadsafe(question, loop)
    answers_of(client).pending = asked
    try:
        return asked.result(seconds)
    except (TimeoutError, OSError):
        return None  # it is still busy, or has gone


def ask_workers(
    client: Any,
    workers: Iterable[str],
    function: Callable[..., Any],
    seconds: float = ANSWER_SECONDS,
) -> dict[str, Any]:
    """Run a function on workers; return what it returns or raises, by address.

    Each is asked by itself: dask would wait for those that are silent, and left out.
    """
    asked = [*workers]
    if not asked or is_silent(client):
        return {}
    return dict(client.sync(_gather, client, asked, function, seconds))


async def _gather(
    client: Any, workers: list[str], function: Callable[..., Any], seconds: float
) -> dict[str, Any]:
    asked = {
        asyncio.ensure_future(client._run(function, workers=[x], on_error="return"))
        for x in workers
    }
    answered, left = await asyncio.wait(asked, timeout=seconds)
    for late in left:
        late.cancel()
    # A worker that has gone is an error of its own.
    told = [x.result() for x in answered if x.exception() is None]
    return {address: found for each in told for address, found in each.items()}


def check_equipped(client: Any, workers: Iterable[str]) -> None:
    """Raise if a worker lacks this package: tasks sent to it would never end."""
    known = answers_of(client)
    new = set(workers) - known.equipped.keys()
    seconds = AGAIN_SECONDS if new <= known.silent else ANSWER_SECONDS
    told = ask_workers(client, new, has_own_gpu, seconds)
    known.silent = new - told.keys()
    for address, found in told.items():
        # Schedulers pass the text of a worker's error on, in an Exception.
        if isinstance(found, Exception) and "twom_dist" in str(found):
            raise _lacks(f"the worker at {address}", found)
    known.equipped |= {x: found for x, found in told.items() if isinstance(found, bool)}


def has_own_gpu() -> bool:
    """Tell whether dask-cuda started this process, without opening its device."""
    return "dask_cuda" in sys.modules


def _lacks(who: str, error: Exception) -> EngineUnavailableError:
    problem = f"{who} cannot import twom_dist ({error})"
    remedy = "Install there the release that this process has"
    return EngineUnavailableError(problem, remedy, "lacks-twom-dist")
