"""Lines of a log, or one that changes on a terminal: tiles, speed, workers."""

import math
import os
import re
import sys
import time
from unittest.mock import Mock

import pytest

from tests.support.jobs import wait_until
from twom_dist.cli import following
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


def answer_alone(ask):
    """Tell of the only worker there is."""
    return ask(Mock(workers={0: worker("running")}))


def fail(ask):
    raise OSError("the scheduler has gone")


@pytest.mark.parametrize(
    ("client", "before", "workers"),
    [
        (None, 4, ""),
        (Mock(run_on_scheduler=answer), 4, ", 3 of 4 workers, 2 paused, 1 silent"),
        (Mock(run_on_scheduler=answer_alone), 1, ", 1 worker"),
        (Mock(run_on_scheduler=fail), 4, ", no answer from the scheduler"),
    ],
)
def test_a_line_tells_of_tiles_and_workers(capsys, client, before, workers):
    lines = []

    def said():
        lines.extend(capsys.readouterr().err.splitlines())
        return lines

    with follow(9, 3, client, before, seconds=0.02) as report:
        wait_until(said)
        assert lines[0] == f"twom-dist: 3 of 9 tiles, preparing{workers}"
        report("looking at the inputs")
        wait_until(lambda: "tiles, looking at the inputs" in said()[-1])
        report(Progress(5, 9, 10**9, 1.0))
        wait_until(lambda: "left" in said()[-1])
        words = r"twom-dist: 5 of 9 tiles, .+ GFLOP/s, .+ left"
        assert re.fullmatch(words + re.escape(workers), lines[-1])
        report(Progress(9, 9, 10**9, 1.0))
        report("writing the output")
        wait_until(lambda: "writing" in said()[-1])
    # A short job says nothing, nor does one that has ended.
    said()
    with follow(9) as report:
        report(Progress(1, 9, 1, 1.0))
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_a_log_has_the_first_tile_and_then_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr(following, "_SHORT_SECONDS", 0.01)
    monkeypatch.setattr(following, "_LOG_SECONDS", 60.0)
    with follow(9) as report:
        time.sleep(0.1)
        assert capsys.readouterr().err == ""
        report(Progress(1, 9, 10**9, 1.0))
        lines = []
        wait_until(lambda: lines.append(capsys.readouterr().err) or lines[-1])
        report(Progress(2, 9, 10**9, 2.0))
        time.sleep(0.1)
        assert capsys.readouterr().err == ""
    assert lines[-1] == "twom-dist: 1 of 9 tiles, 1.0 GFLOP/s, 8s left\n"


def test_on_a_terminal_one_line_changes_and_goes(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    said = []
    with follow(9, seconds=0.02):
        wait_until(lambda: said.append(capsys.readouterr().err) or said[-1])
    said.append(capsys.readouterr().err)
    assert said[-2].startswith("\r0 of 9 tiles, preparing\x1b[K")
    assert said[-1].endswith("\r\x1b[K")


@pytest.mark.parametrize(
    ("seconds", "left"), [(3.0, "6s"), (299.0, "9m 58s"), (301.0, "10m 2s")]
)
def test_the_time_left_is_that_of_the_tiles_of_this_run(seconds, left):
    # Three of nine were there, and one took so long.
    told = following._describe(Progress(7, 9, 4 * 10**9, 4 * seconds), 3, "")
    assert told == f"7 of 9 tiles, {1 / seconds:.1f} GFLOP/s, {left} left"


def test_a_line_is_as_long_as_the_terminal_is_wide(capsys, monkeypatch):
    asked = []

    def measure(number):
        asked.append(number)
        return os.terminal_size((20, 5))

    monkeypatch.setattr(os, "get_terminal_size", measure)
    following._show_in_place("x" * 100)
    # Room is left for the cursor, or the terminal would go on in the next line.
    assert capsys.readouterr().err == f"\r{'x' * 19}\x1b[K"
    assert asked == [2]
    monkeypatch.setattr(os, "get_terminal_size", Mock(side_effect=OSError))
    following._show_in_place("x" * 100)
    assert capsys.readouterr().err == f"\r{'x' * 79}\x1b[K"
