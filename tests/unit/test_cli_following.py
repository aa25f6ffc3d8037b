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
        (scheduler("running", "running"), ", 2 workers"),
        (scheduler("running", "paused"), ", 2 of 4 workers, 1 of them paused"),
        (SimpleNamespace(run_on_scheduler=gone), ", no answer from the scheduler"),
    ],
)
def test_a_line_tells_of_tiles_and_workers(capsys, client, workers):
    lines = []

    def said():
        lines.extend(capsys.readouterr().err.splitlines())
        return lines

    many = 4 if "4" in workers else 2
    with follow(9, 3, client, many, bar=False, seconds=0.02) as report:
        wait_until(said)
        assert lines[0] == f"twom-dist: 3 of 9 tiles{workers}"
        report(Progress(5, 9, 10**9, 1.0))
        wait_until(lambda: "left" in said()[-1])
        found = re.fullmatch(
            r"twom-dist: 5 of 9 tiles, (.+) GFLOP/s, (.+) left(.*)", lines[-1]
        )
        assert (float(found[1]) > 0, found[3]) == (True, workers)
        report(Progress(9, 9, 10**9, 1.0))
        wait_until(lambda: "writing" in said()[-1])
    said()
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_a_short_job_says_nothing(capsys):
    with follow(9, bar=False) as report:
        report(Progress(1, 9, 1, 1.0))
    assert capsys.readouterr().err == ""
