"""Engines that tests run through, how Hypothesis runs, Ctrl-C, and what is fast."""

import signal
from collections.abc import Iterator
from itertools import chain, groupby, islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.strategies import ENGINE_NAMES
from twom_dist.kernels import Engine, get_engine

# Derandomised: a failure is the same for everyone. No deadline: the first call of a
# kernel compiles it.
settings.register_profile(
    "twom",
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("twom")


# Shells have what they start in the background ignore Ctrl-C, and so would everything
# that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Folders of tests that start processes: workers, batch schedulers, scripts, compilers.
INTEGRATION = {"cluster", "distributed", "gpu", "cuda"}
Own = list[pytest.Item]
# dask's, of connections that are cut, as they are thrown away.
UNRAISABLE = "ignore::pytest.PytestUnraisableExceptionWarning"


# Of them those that mostly wait.
WAITING = {"cluster", "distributed"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files; mark what starts processes, and the rest, if not slow."""
    here = Path(__file__).parent
    waiting, computing = [], []
    for path, group in groupby(items, key=lambda item: item.path):
        own = list(group)
        folders = set(path.relative_to(here).parts if path.is_relative_to(here) else ())
        (waiting if WAITING & folders else computing).append(own)
        for item in own if folders else ():
            if WAITING & folders:
                item.add_marker(pytest.mark.filterwarnings(UNRAISABLE))
            if INTEGRATION & folders:
                item.add_marker("integration")
            elif item.get_closest_marker("slow") is None:
                item.add_marker("fast")
    items[:] = chain.from_iterable(mix(waiting, computing))


def mix(waiting: list[Own], computing: list[Own]) -> Iterator[Own]:
    """Yield a file that waits, then two that compute: no core is idle for long.

    The longest, scripts of clusters and kernels of CUDA, are first by their names.
    """
    others = iter(computing)
    for own in waiting:
        yield own
        yield from islice(others, 2)
    yield from others


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=ENGINE_NAMES)
def engine_name(request: pytest.FixtureRequest) -> str:
    """Name of each engine that needs no GPU."""
    return request.param


@pytest.fixture
def engine(engine_name: str) -> Engine:
    """Every engine that needs no GPU."""
    return get_engine(engine_name)
