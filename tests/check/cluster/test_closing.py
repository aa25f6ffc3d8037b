"""What is logged as a local cluster closes, in this process and in its workers."""

import logging
from types import SimpleNamespace

import pytest
from distributed.client import AllExit

from twom_dist.cluster.closing import QuietEnd, quiet_end


@pytest.fixture
def logger():
    """Yield the logger of workers, without the filters of a test."""
    names = ("distributed.worker", "distributed.worker.state_machine")
    loggers = [logging.getLogger(name) for name in names]
    kept = [[*each.filters] for each in loggers]
    yield loggers[1]
    for each, filters in zip(loggers, kept, strict=True):
        each.filters[:] = filters


def passes(logger, error=None):
    told = None if error is None else (type(error), error, None)
    record = logging.LogRecord("x", logging.ERROR, "x", 1, "x", (), told)
    return bool(logger.filter(record))


def test_a_worker_is_silent_while_it_closes_alone(logger):
    worker = SimpleNamespace(status=SimpleNamespace(name="closing"), nanny=None)
    # A filter would outlive a worker of this process.
    QuietEnd().setup(worker)
    assert passes(logger)
    worker.nanny = "tls://127.0.0.1:1"
    QuietEnd().setup(worker)
    assert not passes(logger)
    worker.status.name = "running"
    assert passes(logger)


def test_the_client_says_nothing_of_what_its_closing_cuts_short():
    nanny, loop = (logging.getLogger(x) for x in ("distributed.nanny", "asyncio"))
    with quiet_end():
        assert not passes(nanny)
        assert not passes(loop, AllExit())
        assert passes(loop, ValueError())
    assert passes(nanny)
    assert passes(loop, AllExit())
