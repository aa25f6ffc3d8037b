"""A line a minute, or one that changes on a terminal: tiles, speed, workers."""

import math
import re
import sys
import time
from unittest.mock import Mock

import pytest

from tests.jobs import wait_until
from twom_dist.cli.following import follow
from twom_dist.jobs import Progress


def worker(status, last_seen=math.inf):
    found = Mock(last_seen=last_seen, executing=(), processing=())
    found.status.name = status
    return found


def answer(ask):
    """Tell of two workers that are paused, and one that was never heard of."""
    states = worker("paused"), worker("paused"), worker("running", 0)
    return ask(Mock(workers=dict(enumerate(states))))


def fail(ask):
    raise OSError("the scheduler has gone")


@pytest.mark.parametrize(
    ("client", "workers"),
    [
        (None, ""),
        (Mock(run_on_scheduler=answer), ", 3 of 4 workers, 2 paused, 1 silent"),
        (Mock(run_on_scheduler=fail), ", no answer from the scheduler"),
    ],
)
def test_a_line_tells_of_tiles_and_workers(capsys, client, workers):
    lines = []

    def said():
        lines.extend(capsys.readouterr().err.splitlines())
        return lines

    with follow(9, 3, client, 4, seconds=0.02) as report:
        wait_until(said)
        assert lines[0] == f"twom-dist: 3 of 9 tiles{workers}"
        report(Progress(5, 9, 10**9, 1.0))
        wait_until(lambda: "left" in said()[-1])
        words = r"twom-dist: 5 of 9 tiles, .+ GFLOP/s, .+ left"
        assert re.fullmatch(words + re.escape(workers), lines[-1])
        report(Progress(9, 9, 10**9, 1.0))
        wait_until(lambda: "writing" in said()[-1])
    # A short job says nothing, nor does one that has ended.
    said()
    with follow(9) as report:
        report(Progress(1, 9, 1, 1.0))
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_on_a_terminal_one_line_changes_and_goes(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    said = []
    with follow(9, seconds=0.02):
        wait_until(lambda: said.append(capsys.readouterr().err) or said[-1])
    said.append(capsys.readouterr().err)
    assert said[-2].startswith("\r0 of 9 tiles\x1b[K")
    assert said[-1].endswith("\r\x1b[K")
