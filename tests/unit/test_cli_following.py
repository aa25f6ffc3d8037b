"""A line a minute, where stderr is not a terminal: tiles, speed, workers."""

import re
import time
from types import SimpleNamespace

import pytest

from tests.jobs import wait_until
from twom_dist.cli.following import follow
from twom_dist.jobs import Progress


def scheduler(*names):
    """A client of a scheduler whose workers have statuses of these names."""

    def run_on_scheduler(ask):
        idle = {"executing": {}, "processing": {}}
        statuses = (SimpleNamespace(name=name) for name in names)
        states = (SimpleNamespace(status=status, **idle) for status in statuses)
        return ask(SimpleNamespace(workers=dict(enumerate(states))))

    return SimpleNamespace(run_on_scheduler=run_on_scheduler)


def gone(function):
    raise OSError("the scheduler has gone")


@pytest.mark.parametrize(
    ("client", "workers"),
    [
        (None, ""),
        (scheduler(1, 2, 99), ", 3 of 4 workers, 1 of them silent"),
        (SimpleNamespace(run_on_scheduler=gone), ", no answer from the scheduler"),
    ],
)
def test_a_line_tells_of_tiles_and_workers(capsys, client, workers):
    lines = []

    def said():
        lines.extend(capsys.readouterr().err.splitlines())
        return lines

    with follow(9, 3, client, 4, bar=False, seconds=0.02) as report:
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
    with follow(9, bar=False) as report:
        report(Progress(1, 9, 1, 1.0))
    time.sleep(0.1)
    assert capsys.readouterr().err == ""
