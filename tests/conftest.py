"""Engines that tests run through, how Hypothesis runs, Ctrl-C, and what comes first."""

import os
import signal
from pathlib import Path

import dask
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.support.command import CommandLine, K, M, N, make, save_operands
from tests.support.skips import find_unexpected
from tests.support.strategies import ENGINE_NAMES
from twom_dist.kernels import get_engine
from twom_dist.workers.client import current_client

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

# What "auto" chooses does not depend on what was measured on this machine, in processes
# that tests start neither.
NOWHERE = os.path.join(os.devnull, "crossovers")
os.environ["DASK_TWOM_DIST__CROSSOVERS"] = NOWHERE
dask.config.set({"twom-dist.crossovers": NOWHERE})
# dask's profiler asks Python for the frames of all threads. Under Python 3.11 that may
# stop a process for ever if garbage is collected meanwhile (dask/distributed #8616).
os.environ["DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED"] = "False"
dask.config.set({"distributed.worker.profile.enabled": False})

pytest.register_assert_rewrite("tests.support.contract")

# Fixtures that folders share.
pytest_plugins = [f"tests.support.{name}" for name in ("batch", "workers", "cuda.kept")]


# Shells have what they start in the background ignore Ctrl-C, and so would everything
# that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# dask's, of connections that are cut, as they are thrown away.
UNRAISABLE = "ignore::pytest.PytestUnraisableExceptionWarning"
# These start clusters, and mostly wait: they come first, those of batch schedulers
# before all others. Not by the order of pytest's arguments, of which pytest 9 drops
# those within others.
WAITING = ("nightly/batch", "run/commands/test_scripts.py", "nightly", "run")


def pytest_collection_modifyitems(items):
    """Put first what waits; what starts processes may lose connections."""
    here = Path(__file__).parent

    def place(item):
        path = item.path
        found = (i for i, x in enumerate(WAITING) if path.is_relative_to(here / x))
        return next(found, len(WAITING))

    items.sort(key=place)
    for item in items:
        if place(item) < len(WAITING):
            item.add_marker(pytest.mark.filterwarnings(UNRAISABLE))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    """Fail a run that skipped what it need not."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None:  # one of several processes, which the first one counts
        return
    skipped = [report.nodeid for report in terminal.stats.get("skipped", ())]
    if unexpected := find_unexpected(skipped):
        terminal.write_line("")
        text = "skipped, though tests/support/skips.py does not expect it here: "
        terminal.write_line(text + ", ".join(unexpected), red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def no_client_left():
    """Close the default client that a broken example leaves, or later tests take it."""
    yield
    while (client := current_client()) is not None:
        client.close()
        if client.cluster is not None:
            client.cluster.close()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def files(here):
    """A.zarr, B.npy and C0.h5 in a folder of their own, which is the current one."""
    return save_operands(70, 30, 90)


@pytest.fixture
def call(here, capsys):
    """The command, in a folder of its own."""
    return CommandLine(capsys)


@pytest.fixture
def a(here):
    np.save("A.npy", values := make(M, K, 1))
    return values


@pytest.fixture
def b(here):
    np.save("B.npy", values := make(K, N, 2))
    return values


@pytest.fixture(params=ENGINE_NAMES)
def engine_name(request):
    return request.param


@pytest.fixture
def engine(engine_name):
    return get_engine(engine_name)
