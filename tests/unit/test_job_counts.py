"""Counts of tiles, and calls that never come back."""

import time

import pytest

from tests.command import save_operands
from tests.expect import raises
from twom_dist.errors import StoreError
from twom_dist.jobs import multiply_files, watchdog
from twom_dist.plan.waves import Wave


def test_progress_lists_no_tiles(here, monkeypatch):
    """A list of all of them for each of them takes hours where they are many."""
    save_operands(70, 50, 90)
    seen, listed, cells = [], [], Wave.cells.fget

    def list_cells(wave):
        listed.append(wave)
        return cells(wave)

    monkeypatch.setattr(Wave, "cells", property(list_cells))
    options = {"tile": 16, "progress": seen.append}
    summary = multiply_files("A.zarr", "B.npy", "C.npy", **options)
    # To see what is finished, before and after, and to compute the others.
    assert len(seen) > len(listed) == 3 * summary.waves


def test_a_call_that_does_not_come_back_is_a_silence_of_the_cluster(monkeypatch):
    def fail():
        raise TimeoutError("the disk did not answer")

    with pytest.raises(TimeoutError, match="the disk did not answer"):
        watchdog.ask(fail)
    monkeypatch.setattr(watchdog, "ANSWER_SECONDS", 0.05)
    with raises(StoreError, "cluster-silent"):
        watchdog.ask(time.sleep, 0.5)
